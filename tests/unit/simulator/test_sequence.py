from __future__ import annotations

from proxy.simulator.sequence import FinishReason, Sequence


def test_it_is_in_decode_once_only_its_last_token_is_missing() -> None:
    sequence = Sequence(prompt_tokens=4, max_tokens=3)
    assert not sequence.in_decode
    sequence.computed, sequence.generated = 4, 1
    assert sequence.in_decode
    assert (sequence.tokens, sequence.missing) == (5, 1)


def test_a_preempted_sequence_is_not_in_decode() -> None:
    sequence = Sequence(prompt_tokens=4, max_tokens=3)
    sequence.generated, sequence.computed = 2, 0
    assert not sequence.in_decode


def test_it_ends_at_its_limit() -> None:
    sequence = Sequence(prompt_tokens=4, max_tokens=2)
    sequence.generated = 1
    assert sequence.reason_to_finish() is None
    sequence.generated = 2
    assert sequence.reason_to_finish() is FinishReason.LENGTH


def test_ending_by_itself_at_the_limit_counts_as_ending_by_itself() -> None:
    sequence = Sequence(prompt_tokens=4, max_tokens=2, stop_after=2)
    sequence.generated = 2
    assert sequence.reason_to_finish() is FinishReason.STOP


def test_a_pooling_sequence_stops_without_a_token() -> None:
    assert Sequence(prompt_tokens=4, max_tokens=0).reason_to_finish() is FinishReason.STOP
