from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.openai_api.measure import Measured
from proxy.openai_api.token_estimate import (
    MAX_MODELS,
    OUTPUT_TOKENS,
    RunningMean,
    TokenEstimate,
    certainly_exceeds,
)
from proxy.openai_api.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable


def asked(prompt_bytes: int = 4000, **fields: object) -> Measured:
    values: dict[str, Any] = {"prompt_bytes": prompt_bytes, "model": "m", **fields}
    return Measured(**{"seats": 1, **values})


def answers(
    estimate: TokenEstimate,
    count: int,
    bytes_per_token: float,
    *,
    noise: float = 0.0,
    template: float = 0.0,
    seed: int = 1,
    **fields: object,
) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        size = int(min(max(rng.lognormvariate(7.5, 1.5), 60), 400_000))
        tokens = (template + size / bytes_per_token) * rng.uniform(1 - noise, 1 + noise)
        estimate.learn(asked(size, **fields), Usage(max(1, round(tokens)), 100))


def off(estimate: TokenEstimate, bytes_per_token: float, template: float = 0.0) -> float:
    """The worst relative error over prompts from short to long."""
    sizes: Iterable[int] = (500, 2000, 20_000, 200_000)
    truth = {size: template + size / bytes_per_token for size in sizes}
    return max(abs(estimate.prompt_tokens(asked(s)) / t - 1) for s, t in truth.items())


# Prompts -----------------------------------------------------------------------------------------


def test_at_first_a_token_has_four_bytes() -> None:
    estimate = TokenEstimate()
    assert estimate.prompt_tokens(asked(4000)) == 1000
    assert estimate.prompt_tokens(asked(0)) == 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("template", [0, 10])
@pytest.mark.parametrize("bytes_per_token", [2.5, 4, 6])
def test_twenty_answers_bring_it_within_a_fifth(
    bytes_per_token: float, template: float, seed: int
) -> None:
    estimate = TokenEstimate()
    answers(estimate, 20, bytes_per_token, noise=0.2, template=template, seed=seed)
    assert off(estimate, bytes_per_token, template) < 0.2


@pytest.mark.parametrize(("before", "after"), [(2.5, 6), (4, 2.5), (6, 2.5)])
def test_it_follows_a_model_that_has_changed(before: float, after: float) -> None:
    estimate = TokenEstimate()
    answers(estimate, 300, before, noise=0.2)
    answers(estimate, 100, after, noise=0.2, seed=2)
    assert off(estimate, after) < 0.2


def test_every_model_has_its_own() -> None:
    estimate = TokenEstimate()
    for seed in range(40):
        answers(estimate, 1, 2.5, seed=seed, model="dense")
        answers(estimate, 1, 6, seed=seed, model="light")
    assert estimate.prompt_tokens(asked(60_000, model="dense")) == pytest.approx(24_000, rel=0.1)
    assert estimate.prompt_tokens(asked(60_000, model="light")) == pytest.approx(10_000, rel=0.1)


@pytest.mark.parametrize("model", ["never seen", None])
def test_a_model_that_is_not_known_is_estimated_as_all_are(model: str | None) -> None:
    estimate = TokenEstimate()
    answers(estimate, 40, 2.5)
    assert estimate.prompt_tokens(asked(10_000, model=model)) == pytest.approx(4000, rel=0.1)


def test_names_do_not_pile_up_and_the_oldest_goes_first() -> None:
    estimate = TokenEstimate()
    for turn in range(500):
        estimate.learn(asked(model="steady"), Usage(1000))
        estimate.learn(asked(model=f"made up {turn}"), Usage(1000))
    assert len(estimate._models) == MAX_MODELS
    assert "steady" in estimate._models
    assert "made up 499" in estimate._models
    assert "made up 0" not in estimate._models


def test_asking_for_a_model_does_not_make_it_known() -> None:
    estimate = TokenEstimate()
    estimate.prompt_tokens(asked(model="x"))
    estimate.kv_tokens(asked(model="x"))
    assert len(estimate._models) == 0


def test_token_ids_are_counted_and_teach_nothing_about_bytes() -> None:
    estimate = TokenEstimate()
    counted = asked(30_000, prompt_token_ids=5000, prompts=2, seats=2)
    assert estimate.prompt_tokens(counted) == 5000
    for _ in range(50):
        estimate.learn(counted, Usage(5000, 10))
    assert estimate.prompt_tokens(asked(4000)) == 1000
    assert estimate.error is None


def test_no_prompt_is_longer_than_the_model_takes() -> None:
    estimate = TokenEstimate()
    assert estimate.prompt_tokens(asked(10**8), model_len=8192) == 8192
    assert estimate.prompt_tokens(asked(10**8, prompts=3, seats=3), model_len=8192) == 3 * 8192


def test_the_choices_of_one_prompt_share_its_prefill() -> None:
    assert TokenEstimate().prompt_tokens(asked(4000, seats=8)) == 1000
    assert TokenEstimate().prompt_tokens(asked(4000, seats=8, prompts=4)) == 1000


def test_a_template_counts_for_every_prompt() -> None:
    estimate = TokenEstimate()
    answers(estimate, 200, 4, template=100)
    one, four = asked(4000), asked(4000, prompts=4, seats=4)
    assert estimate.prompt_tokens(one) == pytest.approx(1100, rel=0.05)
    assert estimate.prompt_tokens(four) == pytest.approx(1400, rel=0.05)


# KV cache ----------------------------------------------------------------------------------------


def test_every_sequence_holds_the_prompt_and_what_it_may_say() -> None:
    estimate = TokenEstimate()
    assert estimate.kv_tokens(asked(4000, max_tokens=200)) == 1200
    assert estimate.kv_tokens(asked(4000, max_tokens=200, seats=3)) == 3600
    assert estimate.kv_tokens(asked(4000, max_tokens=200, seats=4, prompts=4)) == 1000 + 800
    assert estimate.kv_tokens(asked(4000, max_tokens=0)) == 1000


def test_it_is_no_more_than_the_model_takes() -> None:
    asks_for_all = asked(4000, max_tokens=10**9, seats=2)
    assert TokenEstimate().kv_tokens(asks_for_all, model_len=2048) == 2 * 2048


def test_what_is_not_said_is_taken_from_answers_to_such_requests() -> None:
    estimate = TokenEstimate()
    silent = asked(4000, max_tokens=None)
    assert estimate.kv_tokens(silent) == 1000 + OUTPUT_TOKENS
    for _ in range(20):
        estimate.learn(asked(4000, max_tokens=16), Usage(1000, 16))
    assert estimate.kv_tokens(silent) == pytest.approx(1000 + OUTPUT_TOKENS, abs=2)
    for length in (100, 300) * 10:
        estimate.learn(asked(4000, seats=2), Usage(1000, 2 * length))
    assert estimate.kv_tokens(silent) == pytest.approx(1200, abs=10)
    assert estimate.kv_tokens(asked(4000, model="other")) == pytest.approx(1200, abs=10)


# How good it is ----------------------------------------------------------------------------------


def test_it_says_how_far_off_it_was() -> None:
    estimate = TokenEstimate()
    assert estimate.error is None
    estimate.learn(asked(4000), Usage(2000))
    assert estimate.error == pytest.approx(0.5)
    for _ in range(300):
        estimate.learn(asked(4000), Usage(2000))
    assert estimate.error < 0.05


def test_it_says_what_a_seat_holds_in_the_end() -> None:
    estimate = TokenEstimate()
    assert estimate.tokens_per_seat is None
    estimate.learn(asked(seats=4, prompts=2, max_tokens=50), Usage(200, 80))
    assert estimate.tokens_per_seat == 100 + 20


def test_an_answer_that_counted_nothing_teaches_nothing() -> None:
    estimate = TokenEstimate()
    estimate.learn(asked(), Usage(0, 0))
    assert estimate.tokens_per_seat is None
    assert len(estimate._models) == 0


def test_a_body_that_was_not_read_teaches_nothing_about_bytes() -> None:
    estimate = TokenEstimate()
    estimate.learn(Measured(1), Usage(1500, 10))
    assert estimate.error is None
    assert estimate.prompt_tokens(asked(4000)) == 1000


def test_means_teach_where_no_answer_does() -> None:
    estimate = TokenEstimate()
    for _ in range(40):
        estimate.learn_mean(8000, 3200)
    assert estimate.prompt_tokens(asked(8000)) == pytest.approx(3200, rel=0.05)
    answers(estimate, 60, 4)
    for _ in range(40):
        estimate.learn_mean(8000, 1000)
    assert estimate.prompt_tokens(asked(8000)) == pytest.approx(2000, rel=0.05)


# Too long ----------------------------------------------------------------------------------------


def test_only_what_was_counted_is_certainly_too_long() -> None:
    assert certainly_exceeds(asked(longest_prompt_token_ids=2049), 2048)
    assert not certainly_exceeds(asked(longest_prompt_token_ids=2048), 2048)
    assert not certainly_exceeds(asked(10**9), 2048)
    assert not certainly_exceeds(asked(prompt_token_ids=4000, prompts=2), 2048)


# Always ------------------------------------------------------------------------------------------

REQUESTS = st.builds(
    lambda width, prompts, size, output, model, ids: Measured(
        seats=width * prompts,
        prompts=prompts,
        prompt_bytes=size,
        max_tokens=output,
        model=model,
        prompt_token_ids=ids,
    ),
    st.integers(1, 8),
    st.integers(1, 2000),
    st.integers(0, 2**26),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.sampled_from("abc"),
    st.none() | st.integers(0, 2**20),
)
USAGES = st.builds(Usage, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))


@given(st.lists(st.tuples(REQUESTS, USAGES), max_size=40), REQUESTS, st.integers(1, 10**6))
def test_whatever_it_learns_its_estimates_stay_within_bounds(
    learned: list[tuple[Measured, Usage]], request: Measured, model_len: int
) -> None:
    estimate = TokenEstimate(max_models=2)
    for measured, usage in learned:
        estimate.learn(measured, usage)
    prompt, kv = estimate.prompt_tokens(request), estimate.kv_tokens(request)
    assert prompt >= 1
    assert kv >= 1
    assert kv >= prompt - request.prompts  # rounding
    assert 1 <= estimate.prompt_tokens(request, model_len) <= model_len * request.prompts
    assert 1 <= estimate.kv_tokens(request, model_len) <= model_len * request.seats


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_a_running_mean_stays_among_its_values(values: list[float]) -> None:
    mean = RunningMean(5.0)
    for value in values:
        mean.learn(value)
    assert mean.value is not None
    assert min(values) <= mean.value * (1 + 1e-9)
    assert mean.value <= max(values) * (1 + 1e-9)


def test_a_running_mean_is_the_mean_at_first() -> None:
    mean = RunningMean(5.0)
    assert mean.value == 5.0
    for value in (1, 2, 6):
        mean.learn(value)
    assert mean.value == pytest.approx(3)
