from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.simulator.errors import ApiError
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.prompting import (
    Prompt,
    Wish,
    conversation_text,
    count_prompts,
    pooling_output,
    read_prompts,
)

if TYPE_CHECKING:
    from proxy.simulator.bodies import Prompts

OPTIONS = SimulatorOptions(max_model_len=100, output_tokens=20)
HELLO = Prompt.of_text("hello there", 100)


def message_of(error: pytest.ExceptionInfo[ApiError]) -> str:
    assert error.value.status == 400
    return error.value.message


@pytest.mark.parametrize(
    ("prompts", "tokens"),
    [
        ("hello there", [2]),
        (["hello", "hello there"], [1, 2]),
        ([5, 6, 7], [3]),
        ([[5, 6], [7]], [2, 1]),
    ],
)
def test_prompts_come_as_text_or_ids_one_or_several(prompts: Prompts, tokens: list[int]) -> None:
    assert [prompt.tokens for prompt in read_prompts(prompts, 100)] == tokens
    assert count_prompts(prompts) == len(tokens)


def test_no_prompt_is_refused() -> None:
    with pytest.raises(ApiError) as error:
        read_prompts([], 100)
    assert message_of(error) == "You must pass at least one prompt"
    assert count_prompts([]) == 1


@pytest.mark.parametrize("prompts", ["", [""], [[]]])
def test_an_empty_prompt_is_refused(prompts: Prompts) -> None:
    with pytest.raises(ApiError, match="cannot be empty"):
        read_prompts(prompts, 100)


def test_too_long_a_prompt_is_refused_with_both_numbers() -> None:
    with pytest.raises(ApiError) as error:
        Prompt.of_ids([1] * 300, 100)
    assert "maximum context length is 100 tokens" in message_of(error)
    assert "contains 300 input tokens" in message_of(error)
    assert error.value.param == "input_tokens"


def test_text_is_counted_only_to_the_limit() -> None:
    with pytest.raises(ApiError, match="at least 101 input tokens"):
        Prompt.of_text("hello " * 300, 100)


def test_a_huge_text_is_not_counted_at_all() -> None:
    with pytest.raises(ApiError, match="contains 60000 characters") as error:
        Prompt.of_text("hello " * 10_000, 100)
    assert error.value.param == "input_text"


def test_a_conversation_is_its_turns_and_an_opening_for_the_answer() -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "image_url"}, {"type": "text", "text": "lo"}]
    turns = [{"role": "user", "content": parts}, {"role": "assistant", "content": None}]
    assert conversation_text(turns, system="Be brief.") == (
        "system: Be brief.\nuser: hello\nassistant: \nassistant:"
    )


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(ApiError, match="empty conversation"):
        conversation_text([])


def test_each_prompt_is_answered_n_times_and_differently() -> None:
    outputs = Wish(n=2).outputs([HELLO, Prompt.of_text("goodbye", 100)], OPTIONS)
    assert [output.sequence.prompt_tokens for output in outputs] == [2, 2, 2, 2]
    assert len({output.answer for output in outputs}) == 4


def test_output_is_limited_by_the_request_and_by_the_model_length() -> None:
    long = Prompt.of_ids([1] * 95, 100)
    limits = [
        Wish(max_tokens=wanted).outputs([long], OPTIONS)[0].sequence.max_tokens
        for wanted in (3, 50, None)
    ]
    assert limits == [3, 5, 5]


def test_a_prompt_that_fills_the_model_leaves_no_room() -> None:
    with pytest.raises(ApiError, match="max_tokens must be at least 1, got 0"):
        Wish().outputs([Prompt.of_ids([1] * 100, 100)], OPTIONS)


def test_an_answer_ends_by_itself_unless_that_is_ignored() -> None:
    natural = Wish().outputs([HELLO], OPTIONS)[0]
    exact = Wish(ignore_eos=True).outputs([HELLO], OPTIONS)[0]
    assert natural.sequence.stop_after == natural.answer.natural_length
    assert exact.sequence.stop_after is None


def test_a_stop_string_ends_an_answer_where_it_comes_up() -> None:
    word = Wish().outputs([HELLO], OPTIONS)[0].answer.text(0, 4).split()[3]
    stopped = Wish(stop=[word]).outputs([HELLO], OPTIONS)[0]
    assert stopped.sequence.stop_after == 4
    unheard = Wish(stop=["%%"], ignore_eos=True).outputs([HELLO], OPTIONS)[0]
    assert unheard.sequence.stop_after is None


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(n=0), "n must be at least 1, got 0."),
        (Wish(n=20_000), "n must be at most 16384, got 20000."),
        (Wish(max_tokens=-1), "max_tokens must be at least 1, got -1."),
        (Wish(temperature=-1.0), "temperature must be non-negative, got -1.0."),
        (Wish(top_p=2.0), "top_p must be in (0, 1], got 2.0."),
        (Wish(top_p=0.0), "top_p must be in (0, 1], got 0.0."),
    ],
)
def test_values_without_sense_are_refused(wish: Wish, message: str) -> None:
    with pytest.raises(ApiError) as error:
        wish.outputs([HELLO], OPTIONS)
    assert message_of(error).startswith(message)


def test_more_output_than_the_model_holds_is_refused_by_the_name_that_was_used() -> None:
    with pytest.raises(ApiError) as error:
        Wish(max_tokens=101, max_tokens_param="max_completion_tokens").check_max_tokens(100)
    assert message_of(error).startswith("max_completion_tokens=101 cannot be greater than")
    assert error.value.param == "max_completion_tokens"


def test_pooling_asks_for_no_tokens() -> None:
    assert pooling_output(HELLO).sequence.max_tokens == 0
