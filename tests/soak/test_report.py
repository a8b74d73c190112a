"""A soak passes when everything held, and says in words what did not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.soak.census import BLOCKS
from tests.soak.invariants import Bounds, Invariants
from tests.soak.memory import MemoryNow
from tests.soak.pages import Sample
from tests.soak.plan import Plan
from tests.soak.report import as_json, failures, table
from tests.soak.soak import Look, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.soak.census import Census

OUTCOME = 'sluice_requests_total{outcome="ok",route="completions"}'


def look(arrivals: int, ended: int, descriptors: int = 20, **more: int) -> Look:
    census: Census = {BLOCKS: 300_000, "proxy.edge.visit.Visit": 0, **more}
    sample = Sample({OUTCOME: float(ended)}, {}, {}, 0.0, float(arrivals), float(ended))
    return Look(descriptors, census, sample)


def passing() -> Result:
    """200,000 requests in 1,000 s; memory stays."""
    result = Result(Plan(seconds=1_000), Invariants(Bounds(4, 4, 10)), seconds=1_000.0)
    result.before, result.after = look(100, 100), look(200_100, 200_100)
    result.told = {"good": 160_000, "verdicts": {"ok": 160_000}, "bad": {"half_close": 40_500}}
    result.troubles, result.least_held = Counter(killed=3), 1_990
    for at in range(1_000):
        result.memory.add(float(at), MemoryNow(10**8, 10**8), 300_000)
    return result


def test_all_held() -> None:
    assert failures(passing()) == []
    assert as_json(passing())["passed"]
    assert "noise" in table(passing())


def grow(result: Result) -> None:
    result.memory.uss = [(at, value + 100 * 200 * at) for at, value in result.memory.uss]


def see_too_many(result: Result) -> None:
    result.invariants.see_engine("one", 100)


def lose_a_seat(result: Result) -> None:
    result.seats_are_wrong = "3 of 4 run in the engines"


def stay_busy(result: Result) -> None:
    result.not_idle = "sluice_in_flight is 1, not 0, after 10 s"


def keep(result: Result) -> None:
    result.after = look(200_100, 200_100, **{"proxy.edge.visit.Visit": 500})


def hold_a_socket(result: Result) -> None:
    result.after = look(200_100, 200_100, descriptors=21)


def forget_one(result: Result) -> None:
    result.after = look(200_100, 200_099)


def count_what_nobody_sent(result: Result) -> None:
    result.after = look(900_000, 900_000)


def mislead_a_client(result: Result) -> None:
    result.told = {**result.told, "verdicts": {"ok": 9, "!no answer (well)": 1}}


def be_spared(result: Result) -> None:
    result.troubles = Counter()


def never_all_be_there(result: Result) -> None:
    result.least_held = 0


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (grow, "USS grows by 100 a request"),
        (see_too_many, "an engine has no more than the limit"),
        (lose_a_seat, "3 of 4 run"),
        (stay_busy, "sluice_in_flight is 1"),
        (keep, "left behind: 500 proxy.edge.visit.Visit"),
        (hold_a_socket, "descriptors: 21, 20 before"),
        (forget_one, "200100 requests came, 200099 ended"),
        (count_what_nobody_sent, "requests came, of 160000 good and 40500 bad clients"),
        (mislead_a_client, "1 clients saw: no answer (well)"),
        (be_spared, "nothing is shown"),
        (never_all_be_there, "2000 connections were never held at once"),
    ],
)
def test_what_did_not_hold_is_told(spoil: Callable[[Result], None], told: str) -> None:
    result = passing()
    spoil(result)
    assert told in "\n".join(failures(result))
    assert not as_json(result)["passed"]


def test_one_that_did_not_come_to_its_end_has_not_passed() -> None:
    assert failures(replace(passing(), after=None)) == ["it did not come to its end"]
