"""What differs by more than noise is found, what does not is not, and loads must be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.replay.comparison import Judgement, compare_runs, load_differences
from proxy.replay.evidence import METRICS
from tests.support.replay_records import RUN, completed, made_up_run, result_of

if TYPE_CHECKING:
    from proxy.replay.result import ReplayResult


def test_two_runs_of_one_load_have_nothing_that_keeps_them_from_being_compared() -> None:
    assert load_differences(made_up_run(seed=1), made_up_run(seed=2)) == []


def test_the_part_of_the_load_that_differs_is_named() -> None:
    a, b = result_of(rate_per_s=10.0), result_of(rate_per_s=20.0, source="x" * 99)
    assert load_differences(a, b) == [
        f"source: synthetic in A, {'x' * 60} in B",
        "rate_per_s: 10.0 in A, 20.0 in B",
    ]


def test_an_objective_is_part_of_it() -> None:
    a, b = result_of(), result_of(slo_ttft_s=1.0)
    assert "objective.ttft_s: unset in A, 1.0 in B" in load_differences(a, b)


def test_a_part_within_a_part_is_named_in_full() -> None:
    a = msgspec.structs.replace(result_of(), load={"hash": "1", "clients": {"retries": 2}})
    b = msgspec.structs.replace(result_of(), load={"hash": "2", "clients": {"retries": 0}})
    assert load_differences(a, b) == ["clients.retries: 2 in A, 0 in B"]


def test_hashes_that_differ_are_believed() -> None:
    a = result_of()
    b = msgspec.structs.replace(a, load={**a.load, "hash": "else"})
    assert len(load_differences(a, b)) == 1


def test_a_run_that_was_broken_off_had_another_load() -> None:
    broken = result_of(run=msgspec.structs.replace(RUN, partial=True, elapsed_s=7.0))
    assert load_differences(result_of(), broken) == [
        "B was broken off after 7 s; the rest did not happen"
    ]


def test_a_terminal_does_not_obey_a_file() -> None:
    a, b = result_of(source="\x1b[2Jgone\nyou"), result_of()
    assert load_differences(a, b) == ["source: ?[2Jgone?you in A, synthetic in B"]


def test_equal_runs_differ_in_nothing() -> None:
    run = made_up_run(seed=1, served=0.9)
    comparison = compare_runs(run, run, seed=1)
    known = {row.judgement for row in comparison.rows.values()}
    assert known <= {Judgement.NOISE, Judgement.UNKNOWN}
    assert list(comparison.rows) == [metric.name for metric in METRICS]


def test_runs_that_differ_by_chance_do_not_differ_in_goodput() -> None:
    a, b = made_up_run(seed=1, slo_ttft_s=0.6), made_up_run(seed=2, slo_ttft_s=0.6)
    assert compare_runs(a, b, seed=1).judged("goodput_per_s") is Judgement.NOISE


def test_slower_first_tokens_are_found_behind_the_ups_and_downs_of_the_load() -> None:
    """The waits of one load vary by a third from stretch to stretch; those of A and B together."""
    a, b = made_up_run(seed=1), made_up_run(seed=2, ttft_s=0.55)
    row = compare_runs(a, b, seed=1).rows["ttft_s.p50"]
    assert row.judgement is Judgement.WORSE
    assert row.change.interval is not None
    assert row.change.interval.low < 0.1 < row.change.interval.high
    assert row.a.interval is not None
    assert row.b.value is not None
    assert row.a.interval.low < row.b.value < row.a.interval.high


def test_more_that_was_refused_is_worse() -> None:
    comparison = compare_runs(made_up_run(seed=1), made_up_run(seed=2, served=0.8), seed=1)
    assert comparison.judged("shed") is Judgement.WORSE
    assert comparison.rows["shed"].change.value == pytest.approx(0.2, abs=0.05)
    assert comparison.judged("goodput_per_s") is Judgement.WORSE


def test_less_than_the_histograms_can_tell_is_noise() -> None:
    a, b = made_up_run(seed=1, gap_s=0.02), made_up_run(seed=1, gap_s=0.0201)
    assert compare_runs(a, b, seed=1).judged("e2e_s.p50") is Judgement.NOISE


def test_a_figure_that_one_run_has_not_is_unknown() -> None:
    a, b = result_of(completed(0.0, tokens=1)), result_of(completed(0.0, tokens=2))
    assert compare_runs(a, b, seed=1).judged("tpot_s.p50") is Judgement.UNKNOWN


@pytest.mark.parametrize(
    ("run", "too_short"),
    [
        (made_up_run(seed=1), False),
        (made_up_run(seed=1, duration_s=8.0), True),  # answers take a second: 20 s were enough
        (made_up_run(seed=1, rate_per_s=0.1), True),  # six requests
    ],
    ids=["a minute", "8 s", "six requests"],
)
def test_runs_are_too_short_where_ten_blocks_would_not_be_independent(
    run: ReplayResult, too_short: bool
) -> None:
    assert compare_runs(run, run, seed=1).is_too_short is too_short


def test_whose_generator_was_late_is_known_with_by_how_much() -> None:
    late = msgspec.structs.replace(RUN, generator={"loop_lag_p99_s": 0.4, "start_lag_p99_s": 0.1})
    comparison = compare_runs(made_up_run(seed=1), made_up_run(seed=1, run=late), seed=1)
    assert comparison.late_s == {"B": 0.4}


def test_a_seed_repeats_a_comparison() -> None:
    a, b = made_up_run(seed=1), made_up_run(seed=2)
    assert compare_runs(a, b, seed=5) == compare_runs(a, b, seed=5)
