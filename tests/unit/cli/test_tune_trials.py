"""Trials go one after the other, each on a gateway of its own, and are kept as they end."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.cli.tune_trials import Trials, gateway_settings, run_trials
from proxy.replay.limit_search import LimitSearch, Range
from tests.support.replay_records import RUN, completed, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.replay.result import ReplayResult

ENGINE = "http://engine:8000"
LATE = msgspec.structs.replace(RUN, generator={"loop_lag_p99_s": 0.4, "start_lag_p99_s": 0.2})


def test_the_users_settings_hold_but_for_what_a_tuning_decides() -> None:
    users = {
        "SLUICE_QUEUE_TIMEOUT": "2",
        "SLUICE_UPSTREAM_API_KEY": "made-up",
        "SLUICE_MAX_IN_FLIGHT": "200",
        "SLUICE_PORT": "8080",
        "SLUICE_ADAPTIVE": "true",
        "SLUICE_API_KEYS": "a:b",
        "PATH": "/usr/bin",
    }
    settings = gateway_settings(ENGINE, 24, users)
    assert settings["SLUICE_QUEUE_TIMEOUT"] == "2"
    assert settings["SLUICE_UPSTREAM_API_KEY"] == "made-up"
    assert settings["PATH"] == "/usr/bin"
    assert settings["SLUICE_UPSTREAM_URLS"] == ENGINE
    assert settings["SLUICE_MAX_IN_FLIGHT"] == "24"
    assert settings["SLUICE_PORT"] == "0"
    assert settings["SLUICE_ADAPTIVE"] == "false"
    assert settings["SLUICE_API_KEYS"] == ""


@pytest.mark.parametrize(
    ("told", "passed_on"), [("256", "256"), ("25", "25"), ("24", ""), ("8", ""), ("", "")]
)
def test_the_size_of_the_engine_does_not_forbid_a_limit(told: str, passed_on: str) -> None:
    settings = gateway_settings(ENGINE, 24, {"SLUICE_MAX_NUM_SEQS": told})
    assert settings["SLUICE_MAX_NUM_SEQS"] == passed_on


class Bench:
    """Gateways and a player that keep a diary; a limit of n serves n requests, up to 8. The load
    generator is late at some limits."""

    def __init__(
        self, fails_at: int | None = None, late_at: Callable[[int], bool] = lambda _limit: False
    ) -> None:
        self.diary: list[str] = []
        self.trials = Trials()
        self.fails_at = fails_at
        self.late_at = late_at
        self.played = 0
        self.search = LimitSearch(Range(2, 32), random.Random(1), points=3, repeats=2, trials=9)

    @contextmanager
    def gateway(self, limit: int) -> Iterator[str]:
        self.diary.append(f"start {limit}")
        try:
            yield f"http://gateway/{limit}"
        finally:
            self.diary.append(f"stop {limit}")

    def play(self, url: str) -> ReplayResult:
        if self.played == self.fails_at:
            raise KeyboardInterrupt
        self.played += 1
        limit = int(url.rpartition("/")[2])
        run = LATE if self.late_at(limit) else RUN
        return result_of(*[completed(0.0)] * min(limit, 8), run=run)

    def run(self) -> None:
        run_trials(
            self.search,
            self.gateway,
            self.play,
            self.trials,
            lambda limit, result: self.diary.append(f"{limit} serves {result.good}"),
        )


def test_one_gateway_runs_at_a_time() -> None:
    bench = Bench()
    bench.run()
    starts = [line for line in bench.diary if line.startswith("start")]
    assert len(starts) == 9
    for at, line in enumerate(bench.diary):
        if line.startswith("start"):
            assert bench.diary[at + 1] == line.replace("start", "stop")


def test_the_search_hears_of_every_trial() -> None:
    bench = Bench()
    bench.run()
    assert {limit: len(results) for limit, results in bench.trials.counted.items()} == {
        limit: len(scores) for limit, scores in bench.search.scores.items()
    }
    found = bench.search.recommendation()
    assert found is not None
    assert found.limit == 8


def test_who_breaks_it_off_keeps_what_was_done_and_leaves_no_gateway() -> None:
    bench = Bench(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.trials.count == 2
    assert bench.diary[-1].startswith("stop")


def test_a_trial_whose_generator_was_late_does_not_decide_and_is_tried_again() -> None:
    late = [True, False]
    bench = Bench(late_at=lambda limit: limit == 32 and bool(late) and late.pop(0))
    bench.run()
    assert bench.trials.late == [(32, 0.4)]
    assert len(bench.trials.counted[32]) == len(bench.search.scores[32]) == 1
    assert bench.trials.count + len(bench.trials.late) == 9


def test_a_generator_that_stays_late_is_not_tried_for_ever() -> None:
    bench = Bench(late_at=lambda limit: limit == 32)
    bench.run()
    assert bench.trials.generator_is_too_slow
    assert set(bench.trials.late) == {(32, 0.4)}
    assert set(bench.search.scores) == {2, 8}
