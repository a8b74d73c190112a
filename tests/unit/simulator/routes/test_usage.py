from __future__ import annotations

import pytest

from proxy.simulator.bodies import StreamOptions
from proxy.simulator.errors import ApiError
from proxy.simulator.generation import Generation, Output
from proxy.simulator.routes.usage import StreamUsage, usage_fields
from proxy.simulator.sequence import Sequence
from proxy.simulator.text import Answer


def output() -> Output:
    made = Output(Sequence(7, 10), Answer.to_prompt(b"hello", 0, 256))
    made.sequence.generated = made.told_tokens = 3
    return made


def test_usage_adds_prompts_and_answers_up() -> None:
    fields = usage_fields(Generation([output(), output()], lambda _: None, n=2))
    assert (fields["prompt_tokens"], fields["completion_tokens"], fields["total_tokens"]) == (
        7,
        6,
        13,
    )


@pytest.mark.parametrize(
    ("options", "usage"),
    [
        (None, StreamUsage()),
        (StreamOptions(), StreamUsage()),
        (StreamOptions(include_usage=True), StreamUsage(at_end=True)),
        (StreamOptions(continuous_usage_stats=True), StreamUsage()),
        (
            StreamOptions(include_usage=True, continuous_usage_stats=True),
            StreamUsage(at_end=True, all_along=True),
        ),
    ],
)
def test_a_stream_tells_as_much_as_was_asked(
    options: StreamOptions | None, usage: StreamUsage
) -> None:
    assert StreamUsage.asked(True, options) == usage


def test_stream_options_without_a_stream_are_refused() -> None:
    with pytest.raises(ApiError, match="Stream options can only be defined"):
        StreamUsage.asked(False, StreamOptions())


def test_chunks_carry_usage_only_when_it_comes_all_along() -> None:
    assert StreamUsage(at_end=True).beside(output()) == {}
    beside = StreamUsage(at_end=True, all_along=True).beside(output())["usage"]
    assert (beside["prompt_tokens"], beside["completion_tokens"]) == (7, 3)
    before = StreamUsage(at_end=True, all_along=True).before(output())["usage"]
    assert before["completion_tokens"] == 0
