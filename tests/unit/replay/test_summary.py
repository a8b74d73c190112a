"""The figures of a result, from records that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from proxy.replay.outcome import Fate
from tests.support.replay_records import RUN, abandoned, completed, made_up_run, refused, result_of

COUNTS = {"offered", "completed", "good", "failed", "shed", "abandoned", "attempts"}
RATES = {"amplification", "goodput_per_s", "throughput_tokens_per_s"}
TIMES = {"ttft_s", "tpot_s", "itl_s", "e2e_s"}


def test_requests_are_counted_by_their_fate_and_tries_by_their_status() -> None:
    failed = replace(abandoned(4.0, 1.0), fate=Fate.FAILED)
    result = result_of(
        completed(0.0), completed(1.0), refused(2.0, tries=3), abandoned(3.0), failed
    )
    assert (result.offered, result.completed, result.failed) == (5, 2, 1)
    assert (result.shed, result.abandoned) == (1, 1)
    assert result.attempts == 7
    assert result.amplification == 1.4
    assert result.statuses == {"503": 3, "200": 2, "no answer": 2}
    assert result.refusals == {"queue_full": 3}


def test_goodput_counts_what_met_the_objective_per_second_of_arrivals() -> None:
    records = [completed(0.0, ttft_s=0.5), completed(1.0, ttft_s=2.0), refused(2.0)]
    result = result_of(*records, duration_s=10.0, slo_ttft_s=1.0)
    assert (result.completed, result.good) == (2, 1)
    assert result.goodput_per_s == pytest.approx(0.1)


def test_tokens_are_per_second_until_the_last_one_came() -> None:
    result = result_of(completed(9.0, 10.6, tokens=5, gap_s=0.1), abandoned(9.0), duration_s=10.0)
    assert result.lasted_s == pytest.approx(20.0)
    assert result.throughput_tokens_per_s == pytest.approx(0.25)


def test_a_run_that_was_broken_off_is_judged_by_the_time_it_lasted() -> None:
    run = msgspec.structs.replace(RUN, partial=True, elapsed_s=2.0)
    assert result_of(completed(0.0), run=run, duration_s=60.0).goodput_per_s == 0.5


def test_percentiles_are_of_completed_requests() -> None:
    result = result_of(completed(0.0, 1.0), completed(1.0, 3.0), abandoned(2.0))
    assert result.ttft_s.p50 == pytest.approx(2.0)
    assert result.e2e_s.mean == pytest.approx(2.4)
    assert result.tpot_s.p99 == pytest.approx(0.1)
    assert result.itl_s.p50 == pytest.approx(0.1, rel=0.006)


def test_how_late_the_generator_was_is_said() -> None:
    late = replace(completed(1.0), arrived_s=0.75)
    assert result_of(late).generator_lag_s.p99 == pytest.approx(0.25)


def test_requests_are_in_the_order_in_which_they_arrived() -> None:
    requests = result_of(completed(5.0), refused(1.0), completed(3.0, 0.25)).requests
    assert requests.arrived_s == [1.0, 3.0, 5.0]
    assert requests.fate == ["shed", "completed", "completed"]
    assert requests.ttft_s == [None, 0.25, 0.5]
    assert requests.good == [False, True, True]


def test_gaps_are_counted_by_the_second_of_arrival() -> None:
    gaps = result_of(completed(0.2), completed(0.9), completed(7.0)).gaps
    assert dict(zip(gaps.second, gaps.count, strict=True)).keys() == {0, 7}
    assert sum(gaps.count) == 12


def test_a_run_without_requests_has_a_result() -> None:
    result = result_of()
    assert result.offered == result.amplification == result.goodput_per_s == 0
    assert result.ttft_s.p50 is None


def test_the_names_of_the_contract_are_there() -> None:
    written = msgspec.to_builtins(result_of(completed(0.0)))
    assert COUNTS | RATES | TIMES | {"statuses", "load", "series"} <= written.keys()
    for name in TIMES:
        assert set(written[name]) == {"p50", "p90", "p95", "p99", "mean"}
    assert written["load"]["hash"]


def test_a_long_run_makes_a_file_of_a_fair_size() -> None:
    result = made_up_run(seed=1, duration_s=120.0, rate_per_s=20.0)
    assert result.offered > 2000
    assert len(msgspec.json.encode(result)) / result.offered < 150
