"""Which pages, one after the other, are those of a stuck engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.metrics_page import EngineMetrics
from proxy.vllm.stall import TRIED_AGAIN_AFTER_S, Progress, judge_progress, without_page

FROZEN = EngineMetrics(
    running=3,
    waiting=1,
    kv_cache_usage=0.5,
    preemptions_total=0,
    iterations_total=1000,
    prompt_tokens_total=100,
    generation_tokens_total=5000,
)


class Watch:
    """Reads the same page again and again, once a second unless said."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.now = 100.0

    def read(
        self,
        page: EngineMetrics = FROZEN,
        times: int = 1,
        every_s: float = 1.0,
        *,
        holding: bool = True,
    ) -> bool:
        """Whether it is stalled after the last of them."""
        for _ in range(times):
            self.now += every_s
            self.progress = judge_progress(self.progress, page, self.now, holding)
        return self.progress.stalled


def stalled() -> Watch:
    watch = Watch()
    assert watch.read(times=11)
    return watch


def test_an_engine_that_does_not_move_for_ten_seconds_while_requests_run_is_stalled() -> None:
    watch = Watch()
    assert not watch.read(times=10)  # the first page has nothing to be the same as
    assert watch.read()
    assert watch.progress.reason == "no step in 10 s while 3 requests run"


def test_one_request_is_one() -> None:
    watch = Watch()
    watch.read(replace(FROZEN, running=1), times=12)
    assert watch.progress.reason == "no step in 11 s while 1 request runs"


def test_an_idle_engine_is_not() -> None:
    assert not Watch().read(replace(FROZEN, running=0), times=100)


@pytest.mark.parametrize("field", ["iterations_total", "running"])
def test_what_is_not_told_is_no_stall(field: str) -> None:
    assert not Watch().read(replace(FROZEN, **{field: None}), times=100)


def test_a_page_that_tells_only_the_heartbeat_is_enough() -> None:
    assert Watch().read(EngineMetrics(running=1, iterations_total=5), times=11)


@pytest.mark.parametrize(
    "moved",
    [
        {"iterations_total": 1001},
        {"kv_cache_usage": 0.51},
        {"running": 2},
        {"waiting": 2},
        {"prompt_tokens_total": 101},
        {"generation_tokens_total": 5001},
        {"preemptions_total": 1},
        {"iterations_total": 3},  # it was restarted
    ],
)
def test_whatever_moves_is_a_sign_of_life(moved: dict[str, float]) -> None:
    watch = Watch()
    for _ in range(10):
        watch.read(times=9)
        assert not watch.read(replace(FROZEN, **moved))
    late = stalled()
    assert not late.read(replace(FROZEN, **moved))


def test_a_long_prefill_brings_no_token_out_but_fills_the_cache() -> None:
    watch = Watch()
    for chunk in range(100):
        assert not watch.read(replace(FROZEN, kv_cache_usage=chunk / 100))


def test_a_step_that_takes_nine_seconds_is_slow_and_no_stall() -> None:
    watch = Watch()
    for step in range(20):
        assert not watch.read(replace(FROZEN, iterations_total=step), times=9)


def test_a_page_that_comes_late_is_one_page_however_late() -> None:
    watch = Watch()
    watch.read()
    assert not watch.read(every_s=3600)
    assert not watch.read(times=3, every_s=8)
    assert watch.read(every_s=8)  # five times the same, and 2 s of each are counted


def test_many_pages_in_a_short_time_are_no_stall_either() -> None:
    assert not Watch().read(times=90, every_s=0.1)


def test_an_engine_that_stopped_counting_its_idle_requests_is_not_stuck() -> None:
    """Some versions go on showing what was given up: only with requests of ours does it count."""
    watch = Watch()
    assert not watch.read(times=600, holding=False)
    assert not watch.read(times=9)
    assert watch.read(times=1)


def test_a_verdict_stands_when_our_clients_have_given_up() -> None:
    assert stalled().read(times=50, holding=False)


def test_it_is_over_when_nothing_runs() -> None:
    assert not stalled().read(replace(FROZEN, running=0))


def test_it_is_over_when_the_page_no_longer_tells() -> None:
    assert not stalled().read(replace(FROZEN, iterations_total=None))


def test_after_a_minute_it_is_tried_again_and_found_again() -> None:
    watch = stalled()
    assert watch.read(times=59)
    assert not watch.read()
    assert not watch.read(times=9)
    assert watch.read()


_NUMBERS = st.none() | st.integers(0, 2)


@given(st.lists(st.tuples(_NUMBERS, _NUMBERS, st.booleans(), st.floats(0, 4)), max_size=60))
def test_nothing_but_ten_seconds_without_movement_makes_a_stall(
    pages: list[tuple[float | None, float | None, bool, float]],
) -> None:
    watch = Watch()
    same_s, last = 0.0, (None, None)
    for running, iterations, holding, later_s in pages:
        page = EngineMetrics(running=running, iterations_total=iterations)
        same_s = same_s + later_s if (running, iterations) == last else 0.0
        last = (running, iterations)
        if watch.read(page, every_s=later_s, holding=holding):
            assert same_s >= 10
            assert running
            assert iterations is not None


def test_a_verdict_does_not_outlive_its_minute_when_the_page_is_gone() -> None:
    stalled = Progress(stalled=True, read_at=100.0)
    assert without_page(stalled, 100.0 + TRIED_AGAIN_AFTER_S - 1).stalled
    assert not without_page(stalled, 100.0 + TRIED_AGAIN_AFTER_S).stalled
    assert without_page(Progress(read_at=5.0), 1e6) == Progress(read_at=5.0)
