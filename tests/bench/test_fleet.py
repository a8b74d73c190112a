from __future__ import annotations

import asyncio
from itertools import islice
from xml.etree import ElementTree as ET

import pytest

from proxy.replay.arrival import Arrival
from proxy.shared_limit.store import Renewal, StoreAwayError
from tests.bench.fleet import load
from tests.bench.fleet.plans import jobs
from tests.bench.fleet.plots import plots
from tests.bench.fleet.store_model import FREE, Costs, StoreModel, costs
from tests.bench.fleet.svg import Chart, Series, drawn
from tests.bench.fleet.tally import FleetTally, LimitExceededError, jain
from tests.support.virtual_time import now, run

PATTERN = load.pattern_of([Arrival(0.0, 4000, 40), Arrival(1.0, 0, 80), Arrival(4.0, 0, 120)])


# What comes in


def test_of_a_trace_the_gaps_become_relative_and_the_lengths_become_holds() -> None:
    assert PATTERN.gaps == (0.5, 1.5)
    assert PATTERN.holds_s == pytest.approx((2.0, 2.0, 3.0))


def test_a_trace_in_which_all_come_at_once_has_no_pattern() -> None:
    with pytest.raises(ValueError, match="different times"):
        load.pattern_of([Arrival(1.0, 1, 1), Arrival(1.0, 1, 1)])


def test_arrivals_follow_the_load() -> None:
    rising = load.Profile((1.0, 2.0), 1000.0)
    times = [at_s for at_s, _ in islice(load.arrivals(PATTERN, rising, 4.0, 0), 10_000)]
    early = sum(at_s < 100 for at_s in times)
    late = sum(1000 <= at_s < 1100 for at_s in times)
    assert early == pytest.approx(420, rel=0.05)
    assert late == pytest.approx(800, rel=0.05)


def test_a_profile_is_a_line_between_its_points_and_level_after_the_last() -> None:
    profile = load.Profile((0.0, 1.0), 10.0)
    assert [profile.at(seconds) for seconds in (0, 5, 10, 99)] == [0.0, 0.5, 1.0, 1.0]


def test_a_day_has_its_busiest_hour_at_the_peak() -> None:
    assert max(load.day(1.3, 2400.0).loads) == 1.3
    assert load.day(1.3, 2400.0).at(900.0) == 1.3


def test_all_parts_are_one_and_even_without_skew() -> None:
    assert load.parts(4, 0.0) == (0.25,) * 4
    skewed = load.parts(4, 1.0)
    assert sum(skewed) == pytest.approx(1.0)
    assert skewed[0] == pytest.approx(4 * skewed[3])


# What is counted


def test_the_index_is_1_for_alike_and_1_in_n_for_one_who_has_all() -> None:
    assert jain([0.3, 0.3, 0.3]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([0.0, 0.0]) == 1.0


def test_seats_in_use_count_as_long_as_anybody_waits() -> None:
    at = [0.0]
    tally = FleetTally(lambda: at[0], limit=2, engines=2)
    tally.admit("a", 2)
    at[0] = 10.0
    tally.wait(1)
    at[0] = 11.0
    tally.admit("b", 1)
    at[0] = 12.0
    tally.wait(-1)
    at[0] = 20.0
    assert tally.utilization == pytest.approx((2 + 3) / (2 * 4))
    assert tally.waiting_part == pytest.approx(0.1)
    assert tally.mean_taken == pytest.approx((2 * 11 + 3 * 9) / (20 * 4))


def test_a_seat_too_many_ends_it() -> None:
    tally = FleetTally(lambda: 0.0, limit=2, engines=2)
    tally.admit("a", 2)
    tally.admit("b", 2)
    with pytest.raises(LimitExceededError, match="3 of 2 in a"):
        tally.admit("a", 1)


# The store


def renewals(leases: int) -> dict[str, Renewal]:
    one = Renewal(gateway="a", seq=1, keep=0, want=0, widest=0, waited_ms=0, limit=8)
    return {f"{number}": one for number in range(leases)}


def test_between_what_was_measured_costs_lie_on_a_line() -> None:
    four, seven, ten = (costs(gateways).store_s for gateways in (4, 7, 10))
    assert seven == pytest.approx((four + ten) / 2)
    assert costs(200).store_s > costs(100).store_s


def test_whoever_asks_while_the_store_works_waits_for_it() -> None:
    async def scenario() -> None:
        store = StoreModel(now, Costs(0.1, 0.0))
        await asyncio.gather(store.renew(renewals(3)), store.renew(renewals(2)))
        assert now() == pytest.approx(0.5, abs=0.01)
        assert (store.busy_s, store.round_trips, store.renewals) == (pytest.approx(0.5), 2, 5)

    run(scenario())


def test_what_is_not_answered_within_a_second_is_in_vain_and_done_all_the_same() -> None:
    async def scenario() -> None:
        store = StoreModel(now, Costs(0.4, 0.0))
        with pytest.raises(StoreAwayError):
            await store.renew(renewals(3))
        assert now() == 1.0
        await store.idle()
        assert (now(), store.timeouts) == (pytest.approx(1.2, abs=0.01), 1)

    run(scenario())


def test_a_store_that_costs_nothing_takes_the_way_there_and_back() -> None:
    async def scenario() -> None:
        await StoreModel(now, FREE).renew(renewals(3))
        assert now() == pytest.approx(0.001)

    run(scenario())


# What is drawn


def chart(*points: tuple[float, float], x_log: bool = False) -> ET.Element:
    series = [Series("a < b", points)]
    text = drawn(
        Chart(title="t", x_title="x", x_marks=(1, 100), x_log=x_log, y_top=1, series=series)
    )
    return ET.fromstring(text)  # noqa: S314 - our own


def points_of(svg: ET.Element) -> list[tuple[float, float]]:
    [line] = svg.iter("{http://www.w3.org/2000/svg}polyline")
    return [(float(x), float(y)) for x, y in (p.split(",") for p in line.attrib["points"].split())]


def test_a_line_is_drawn_from_the_first_mark_to_the_last() -> None:
    (x0, y0), (x1, y1), (x2, y2) = points_of(chart((1, 0), (10, 0.5), (100, 1), x_log=True))
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)


def test_what_is_above_the_top_is_drawn_at_the_top() -> None:
    (_, top), (_, above) = points_of(chart((1, 1), (100, 7)))
    assert top == above


def test_the_grid_and_the_day_are_drawn() -> None:
    figures = {"utilization": 0.9, "store_load": 0.1, "waiting_part": 0.2}
    grid = [
        {"group": "grid", "name": f"x at {at:g}", "gateways": 4, "engines": 10, **figures}
        for at in (0.8, 1.2)
    ]
    samples = [{"at_s": 1.0, "load": 1.0, "taken": 0.9, "parked": 0.0}]
    a_day = {"group": "day", "gateways": 4, "engines": 10, "samples": samples}
    names = {name for name, svg in plots([*grid, a_day]) if "<polyline" in svg}
    assert names == {"utilization", "store", "waits", "day"}


def test_no_two_plans_have_the_same_name() -> None:
    names = [job.name for job in jobs()]
    assert len(names) == len(set(names))
