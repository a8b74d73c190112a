"""From two pages to how full the engine is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.admission.saturation import Saturation
from proxy.vllm.metrics_page import EngineMetrics
from proxy.vllm.saturation import Reading, saturation_between

BEFORE = EngineMetrics(
    running=8,
    waiting=0,
    kv_cache_usage=0.5,
    preemptions_total=10,
    iterations_total=1000,
    tpot_sum_s=100.0,
    tpot_count=5000,
)
AFTER = EngineMetrics(
    running=9,
    waiting=4,
    kv_cache_usage=0.75,
    preemptions_total=13,
    iterations_total=1100,
    tpot_sum_s=120.0,
    tpot_count=5800,
)


def between(before: EngineMetrics, after: EngineMetrics, apart_s: float = 2.0) -> Saturation:
    return saturation_between(Reading(before, 50.0), Reading(after, 50.0 + apart_s))


def test_counters_are_looked_at_by_their_difference_and_gauges_as_they_are_now() -> None:
    assert between(BEFORE, AFTER) == Saturation(
        waiting=4, kv_cache_usage=0.75, preemptions_per_s=1.5, tpot_s=0.025
    )


def test_what_neither_page_tells_is_unknown() -> None:
    assert between(EngineMetrics(), EngineMetrics()).is_unknown


@pytest.mark.parametrize("field", ["waiting", "kv_cache_usage"])
def test_a_gauge_that_the_later_page_lacks_is_unknown(field: str) -> None:
    assert getattr(between(BEFORE, replace(AFTER, **{field: None})), field) is None


@pytest.mark.parametrize(
    ("counter", "field"),
    [
        ("preemptions_total", "preemptions_per_s"),
        ("tpot_sum_s", "tpot_s"),
        ("tpot_count", "tpot_s"),
    ],
)
def test_a_counter_that_is_unknown_once_has_no_difference(counter: str, field: str) -> None:
    for pages in (
        (replace(BEFORE, **{counter: None}), AFTER),
        (BEFORE, replace(AFTER, **{counter: None})),
    ):
        assert getattr(between(*pages), field) is None


def test_an_engine_that_was_restarted_has_gauges_only() -> None:
    young = replace(AFTER, preemptions_total=1, iterations_total=20, tpot_sum_s=1.0, tpot_count=100)
    assert between(BEFORE, young) == Saturation(waiting=4, kv_cache_usage=0.75)


def test_without_a_step_in_between_the_gauges_are_old_and_tell_nothing() -> None:
    assert between(BEFORE, replace(AFTER, iterations_total=1000)).is_unknown


def test_an_engine_that_counts_no_steps_is_believed() -> None:
    pages = (replace(page, iterations_total=None) for page in (BEFORE, AFTER))
    assert between(*pages).waiting == 4


def test_a_few_tokens_make_no_mean() -> None:
    saturation = between(BEFORE, replace(AFTER, tpot_count=5009))
    assert saturation.tpot_s is None
    assert saturation.waiting == 4


@pytest.mark.parametrize("apart_s", [-1.0, 0.0, 10.1])
def test_pages_too_far_apart_or_in_no_order_tell_nothing(apart_s: float) -> None:
    assert between(BEFORE, AFTER, apart_s).is_unknown
