"""Every event is in its second, every try in the seconds that it lasted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.replay.request_times import Objective
from proxy.replay.series import series_of
from tests.support.replay_records import abandoned, completed, made_up_run, refused

NO_OBJECTIVE = Objective()


def test_counts_are_in_the_second_in_which_the_thing_happened() -> None:
    records = [completed(0.5, 1.0), completed(0.2, 0.1), refused(1.5, tries=2)]
    series = series_of(records, Objective(ttft_s=0.5))
    assert series.offered == [2, 1, 0]
    assert series.served == [1, 1, 0]
    assert series.good == [1, 0, 0]
    assert series.retries == [0, 0, 1]
    assert series.sheds == {"queue_full": [0, 1, 1]}


def test_all_lists_are_as_long_as_the_run() -> None:
    series = series_of([completed(0.0), abandoned(1.0, after_s=3.5)], NO_OBJECTIVE)
    lengths = {len(getattr(series, name)) for name in series.__struct_fields__ if name != "sheds"}
    assert lengths == {5}


def test_concurrency_is_the_mean_of_tries_under_way() -> None:
    series = series_of([abandoned(0.25, after_s=2.0)], NO_OBJECTIVE)
    assert series.concurrency == [0.75, 1.0, 0.25]
    assert series.waiting == series.concurrency


def test_a_try_waits_until_its_first_byte() -> None:
    series = series_of([completed(0.0, ttft_s=1.5, tokens=2, gap_s=1.0)], NO_OBJECTIVE)
    assert series.concurrency == [1.0, 1.0, 0.5]
    assert series.waiting == [1.0, 0.5, 0.0]


def test_the_sum_of_concurrency_is_the_time_that_tries_took() -> None:
    result = made_up_run(seed=1, duration_s=20.0)
    assert sum(result.series.concurrency) == pytest.approx(sum(result.requests.e2e_s), rel=0.001)


def test_percentiles_are_of_those_who_arrived_in_that_second() -> None:
    records = [completed(0.1, 3.0), completed(0.2, 5.0), completed(2.0, 1.0), refused(1.0)]
    series = series_of(records, NO_OBJECTIVE)
    assert series.ttft_p50_s[:3] == pytest.approx([4.0, None, 1.0])
    assert series.e2e_p50_s[:3] == pytest.approx([4.4, None, 1.4])


def test_tokens_are_counted_when_they_came() -> None:
    streamed = completed(0.0, ttft_s=0.5, tokens=4, gap_s=0.4)
    bundled = replace(streamed, output_tokens=9)
    whole = replace(streamed, token_times=None)
    assert series_of([streamed], NO_OBJECTIVE).output_tokens == [2, 2]
    assert series_of([bundled], NO_OBJECTIVE).output_tokens == [4.5, 4.5]
    assert series_of([whole], NO_OBJECTIVE).output_tokens == [0, 4]


def test_a_server_with_ever_new_reasons_does_not_get_a_line_for_each() -> None:
    records = [refused(0.0, f"reason {i}") for i in range(20)] + [refused(0.0, "often")] * 3
    sheds = series_of(records, NO_OBJECTIVE).sheds
    assert len(sheds) == 9
    assert sheds["often"] == [3]
    assert sheds["other"] == [13]


def test_nothing_happened_in_an_empty_run() -> None:
    assert series_of([], NO_OBJECTIVE).offered == [0]
