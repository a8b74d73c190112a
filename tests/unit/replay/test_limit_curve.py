"""Means of the trials of each limit, and how far its goodput spread."""

from __future__ import annotations

import pytest

from proxy.replay.limit_curve import limit_curve
from tests.support.replay_records import completed, refused, result_of

ONE = result_of(completed(0.0, 1.0), duration_s=10.0)
TWO = result_of(completed(0.0, 2.0), completed(1.0, 2.0), refused(2.0), refused(3.0, tries=3))


def test_limits_ascend_and_their_trials_are_averaged() -> None:
    small, large = limit_curve({16: [TWO], 4: [ONE, TWO]})
    assert (small.limit, small.trials, large.limit, large.trials) == (4, 2, 16, 1)
    assert small.goodput_per_s == pytest.approx(0.15)
    assert (small.lowest_per_s, small.highest_per_s) == (0.1, 0.2)
    assert small.ttft_p95_s == pytest.approx(1.5)
    assert small.shed_share == 0.25
    assert large.attempts_per_request == 1.5


def test_a_limit_at_which_nothing_was_answered_has_no_times() -> None:
    (point,) = limit_curve({4: [result_of(refused(0.0)), result_of()]})
    assert point.ttft_p95_s is point.tpot_p95_s is None
    assert point.goodput_per_s == 0
    assert point.shed_share == 0.5


def test_a_limit_without_trials_is_no_point() -> None:
    assert limit_curve({4: []}) == []
