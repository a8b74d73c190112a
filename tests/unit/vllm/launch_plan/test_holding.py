from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.holding import RARELY, Holding, holding, sequences_that_fit
from proxy.vllm.launch_plan.kv_cache import KvLayout
from proxy.vllm.launch_plan.traffic import traffic_of_requests

PLAIN = KvLayout(16, (), (), (None,), 0)


def test_a_sequence_holds_its_prompt_and_half_of_its_output_on_average() -> None:
    each = holding(traffic_of_requests([(1000, 400)], "x"), PLAIN, 4096)
    assert each.tokens == 1200
    assert each.blocks == 1200 / 16 + 0.5


def test_long_answers_are_met_more_often_than_they_come() -> None:
    """One of 900 tokens runs nine times as long as one of 100."""
    each = holding(traffic_of_requests([(1, 100), (1, 900)], "x"), PLAIN, 4096)
    assert each.tokens == pytest.approx(1 + 0.1 * 50 + 0.9 * 450)


def test_a_window_bounds_what_is_held() -> None:
    windowed = KvLayout(16, (), (), (512,), 0)
    each = holding(traffic_of_requests([(4000, 10)], "x"), windowed, 8192)
    assert each.blocks == 512 / 16 + 0.5
    assert each.deviation == 0


def test_requests_longer_than_the_engine_takes_are_cut() -> None:
    each = holding(traffic_of_requests([(90_000, 90_000)], "x"), PLAIN, 4096)
    assert each.tokens <= 4096


def test_of_equal_sequences_as_many_fit_as_divide() -> None:
    assert sequences_that_fit(Holding(10, 0, 160), 105) == 10


@given(st.floats(1, 500), st.floats(0, 500), st.integers(0, 100_000))
def test_those_that_fit_do_and_one_more_does_not(
    blocks: float, deviation: float, cache: int
) -> None:
    number = sequences_that_fit(Holding(blocks, deviation, 0), cache)

    def needed(n: int) -> float:
        return n * blocks + RARELY * deviation * float(n) ** 0.5

    assert needed(number) <= cache * (1 + 1e-9)
    assert needed(number + 1) > cache * (1 - 1e-9)


@given(st.integers(0, 50_000), st.integers(0, 50_000))
def test_a_larger_cache_never_holds_fewer(a: int, b: int) -> None:
    each = Holding(95.4, 65.8, 1519)
    small, large = sorted((a, b))
    assert sequences_that_fit(each, small) <= sequences_that_fit(each, large)
