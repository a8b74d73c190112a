from __future__ import annotations

from proxy.simulator.counters import EngineCounters, Histogram
from proxy.simulator.sequence import FinishReason, Sequence


def test_an_observation_on_a_boundary_belongs_below_it() -> None:
    histogram = Histogram([1, 2, 5])
    for value in (0.5, 1, 2, 3, 9):
        histogram.observe(value)
    assert histogram.counts == [2, 1, 1, 1]
    assert (histogram.count, histogram.sum) == (5, 15.5)


def test_length_buckets_end_at_the_model_length() -> None:
    assert EngineCounters(300).request_prompt_tokens.buckets == (1, 2, 5, 10, 20, 50, 100, 200)


def finished(reason: FinishReason) -> EngineCounters:
    counters = EngineCounters(100)
    sequence = Sequence(prompt_tokens=7, max_tokens=5)
    sequence.arrived_s, sequence.scheduled_s, sequence.first_token_s = 1.0, 3.0, 4.0
    sequence.generated = 5
    counters.sequence_finished(sequence, reason, now_s=8.0)
    return counters


def test_the_times_of_a_finished_sequence_add_up() -> None:
    counters = finished(FinishReason.LENGTH)
    assert counters.finished[FinishReason.LENGTH] == 1
    assert counters.e2e_latency.sum == 7.0
    assert counters.queue_time.sum == 2.0
    assert counters.prefill_time.sum == 1.0
    assert counters.decode_time.sum == 4.0
    assert counters.inference_time.sum == 5.0
    assert counters.time_per_output_token.sum == 1.0


def test_what_a_client_gave_up_is_counted_but_not_timed() -> None:
    counters = finished(FinishReason.ABORT)
    assert counters.finished[FinishReason.ABORT] == 1
    assert counters.e2e_latency.count == 0
    assert counters.request_prompt_tokens.count == 0


def test_the_gap_before_the_first_token_is_no_inter_token_latency() -> None:
    counters, sequence = EngineCounters(100), Sequence(prompt_tokens=7, max_tokens=5)
    sequence.generated = 1
    counters.token_generated(sequence, now_s=5.0)
    sequence.last_token_s, sequence.generated = 5.0, 2
    counters.token_generated(sequence, now_s=5.5)
    assert (counters.inter_token_latency.count, counters.inter_token_latency.sum) == (1, 0.5)
    assert counters.generation_tokens == 2
