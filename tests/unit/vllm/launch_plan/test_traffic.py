from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.traffic import (
    Lengths,
    assumed_traffic,
    parse_lengths,
    traffic_of_percentiles,
    traffic_of_requests,
)


def test_two_or_three_percentiles_are_read() -> None:
    assert parse_lengths("800,6000", "--prompt-tokens") == Lengths(800, 6000)
    assert parse_lengths("1, 2,3", "--prompt-tokens") == Lengths(1, 2, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("800", "give whole numbers of tokens as p50,p95"),
        ("a,b", "give whole numbers"),
        ("1_0,5,6", "give whole numbers"),
        ("1,2,3,4", "give whole numbers"),
        ("500,400", "must not fall"),
        ("0,5", "start at 1"),
    ],
)
def test_bad_percentiles_get_one_line(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=f"^--prompt-tokens '{text}': .*{said}"):
        parse_lengths(text, "--prompt-tokens")


def test_a_sample_has_the_percentiles_that_it_is_made_from() -> None:
    made = traffic_of_percentiles(Lengths(1000, 4000, 8000), Lengths(200, 800), "x")
    prompts = sorted(prompt for prompt, _ in made.requests)
    assert prompts[len(prompts) // 2] == pytest.approx(1000, rel=0.1)
    assert prompts[int(len(prompts) * 0.95)] == pytest.approx(4000, rel=0.15)
    assert made.total == Lengths(1200, 4800)


def test_without_a_p99_the_curve_through_the_others_gives_it() -> None:
    assert Lengths(100, 200).longest_likely == pytest.approx(267, abs=1)
    assert Lengths(100, 200, 250).longest_likely == 250


def test_a_trace_is_taken_as_it_is() -> None:
    traced = traffic_of_requests([(10, 1), (20, 2), (30, 3)], "trace x")
    assert (traced.mean_prompt, traced.mean_output) == (20, 2)
    assert traced.total == Lengths(22, 33, 33)
    assert not traced.made_up


def test_a_long_trace_is_thinned_out() -> None:
    assert len(traffic_of_requests([(1, 1)] * 50_001, "x").requests) <= 20_000


def test_a_trace_without_requests_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^x: no request"):
        traffic_of_requests([], "x")


def test_what_is_assumed_says_so() -> None:
    assert assumed_traffic().source.startswith("assumed")


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.floats(-3, 3), st.floats(0, 3))
def test_lengths_grow_along_their_curve(p50: int, more: int, z: float, step: float) -> None:
    lengths = Lengths(p50, p50 + more)
    assert lengths.at(z) <= lengths.at(z + step) * 1.000001
