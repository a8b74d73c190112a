from __future__ import annotations

from tests.bench.contenders import contenders
from tests.bench.storm.clients import DEAF, ONCE, SDK
from tests.bench.storm.rounds import Plan
from tests.bench.storm.rows import SLUICE, WAYS, rows


def test_every_way_meets_sdk_clients_at_every_rate_and_those_who_never_retry_at_the_lowest() -> (
    None
):
    listed = rows((3.0, 10.0))
    assert {(row.way, row.times) for row in listed if row.manner is SDK} == {
        (way, times) for way in WAYS for times in (3.0, 10.0)
    }
    assert {row.way for row in listed if row.manner is DEAF} == {SLUICE}
    assert {row.times for row in listed if row.manner is ONCE} == {3.0}
    assert len({row.name for row in listed}) == len(listed)


def test_every_way_is_a_contender() -> None:
    assert {way.contender for way in WAYS} <= contenders().keys()


def test_only_some_ways() -> None:
    assert {row.way for row in rows((3.0,), ["Sluice"])} == {SLUICE}


def test_an_engine_is_started_once_a_round_for_each_flag_and_every_other_round_goes_backwards() -> (
    None
):
    plan = Plan(rows((3.0,)), 1.0)
    forth, back = (list(plan.by_engine(number)) for number in (1, 2))
    assert [flag for flag, _ in forth] == [flag for flag, _ in back] == [None, 23]
    assert [group[::-1] for _, group in back] == [group for _, group in forth]
    assert sum(len(group) for _, group in forth) == len(plan.rows)
