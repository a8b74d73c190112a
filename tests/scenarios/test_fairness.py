"""Seats of competing tenants, held against the max-min fair shares that can be computed.

Means over minutes of virtual time, through the controller. A tenant "is busy" when it always has
requests waiting; its demand is then without end, or its cap.
"""

from __future__ import annotations

import math

import pytest

from tests.support.tenants import Town, Work, max_min_shares
from tests.support.virtual_time import run

WITHIN = 0.05


def check_fair(
    measured: dict[str, float],
    demands: dict[str, float],
    weights: dict[str, float] | None = None,
) -> None:
    """Each share is within 5 % of the fair share in the seats that were in use."""
    in_use = sum(measured.values())
    fair = max_min_shares(in_use, demands, weights or {})
    assert measured == pytest.approx(fair, rel=WITHIN)


def endless(*works: Work) -> dict[str, float]:
    return {work.tenant: math.inf for work in works}


async def shares_of_busy_tenants(
    town: Town, works: tuple[Work, ...], clients: int = 40, over_s: float = 600
) -> dict[str, float]:
    for work in works:
        town.keep_busy(work, clients)
    measured = await town.mean_seats(after_s=60, over_s=over_s)
    await town.close()
    return measured


def test_the_fair_shares_are_computed_as_defined() -> None:
    shares = max_min_shares(10, {"a": 1, "b": math.inf, "c": math.inf}, {"c": 2.0})
    assert shares == pytest.approx({"a": 1, "b": 3, "c": 6})
    assert max_min_shares(10, {"a": 2, "b": 3}, {}) == {"a": 2, "b": 3}


def test_seats_are_shared_equally_whatever_the_widths_and_durations() -> None:
    async def scenario() -> None:
        works = (
            Work("long", mean_s=20.0),
            Work("wide", mean_s=1.0, widths=(4,)),
            Work("mixed", mean_s=3.0, widths=(1, 2, 3)),
        )
        town = Town(seats=64)
        measured = await shares_of_busy_tenants(town, works, clients=80)
        check_fair(measured, endless(*works))
        assert sum(measured.values()) > 0.95 * town.seats  # waiting for room leaves few idle

    run(scenario())


def test_seats_are_shared_by_weight() -> None:
    async def scenario() -> None:
        weights = {"silver": 2.0, "gold": 4.0}
        works = (
            Work("bronze", widths=(4,)),
            Work("silver", mean_s=10.0),
            Work("gold", mean_s=3.0, widths=(1, 2)),
        )
        town = Town(seats=60, weights=weights)
        measured = await shares_of_busy_tenants(town, works, clients=60)
        check_fair(measured, endless(*works), weights)

    run(scenario())


def test_what_a_capped_tenant_leaves_goes_to_the_others() -> None:
    async def scenario() -> None:
        weights = {"big": 6.0}
        works = (Work("big"), Work("a", mean_s=5.0), Work("b", widths=(1, 2)))
        town = Town(seats=40, weights=weights, cap=16)
        measured = await shares_of_busy_tenants(town, works)
        check_fair(measured, {"big": 16.0, "a": 16.0, "b": 16.0}, weights)
        assert measured["big"] == pytest.approx(16, rel=WITHIN)

    run(scenario())


def test_what_a_modest_tenant_does_not_want_goes_to_the_others() -> None:
    async def scenario() -> None:
        town = Town(seats=30)
        town.keep_busy(Work("modest", mean_s=6.0), clients=4)
        works = (Work("a"), Work("b", mean_s=4.0, widths=(2,)))
        measured = await shares_of_busy_tenants(town, works)
        check_fair(measured, endless(*works) | {"modest": 4.0})

    run(scenario())


# An engine with seven seats has no third of seven: these are shares that only time can give.


def test_a_weight_counts_although_tenants_outnumber_seats() -> None:
    async def scenario() -> None:
        weights = {"paid": 10.0}
        works = (Work("paid"), *(Work(f"free {number}") for number in range(20)))
        town = Town(seats=7, weights=weights)
        measured = await shares_of_busy_tenants(town, works, clients=8, over_s=1200)
        check_fair(measured, endless(*works), weights)

    run(scenario())


def test_a_weight_counts_for_a_tenant_with_few_clients_too() -> None:
    async def scenario() -> None:
        weights = {"paid": 10.0}
        free = tuple(Work(f"free {number}") for number in range(20))
        town = Town(seats=7, weights=weights)
        town.keep_busy(Work("paid"), clients=4)
        measured = await shares_of_busy_tenants(town, free, clients=3, over_s=1200)
        assert measured["paid"] == pytest.approx(7 * 10 / 30, rel=0.1)

    run(scenario())


def test_long_requests_get_no_more_than_short_ones_although_tenants_outnumber_seats() -> None:
    async def scenario() -> None:
        works = (Work("long", mean_s=10.0), *(Work(f"short {number}") for number in range(9)))
        measured = await shares_of_busy_tenants(Town(seats=7), works, clients=8, over_s=2400)
        check_fair(measured, endless(*works))

    run(scenario())


def test_requests_as_wide_as_the_engine_get_their_share_and_no_more() -> None:
    async def scenario() -> None:
        works = (Work("wide", widths=(8,)), *(Work(f"narrow {number}") for number in range(8)))
        measured = await shares_of_busy_tenants(Town(seats=8), works, clients=8, over_s=2400)
        check_fair(measured, endless(*works))

    run(scenario())


def test_a_flood_of_one_tenant_is_not_felt_by_the_others() -> None:
    async def scenario() -> None:
        town = Town(seats=8, max_queue_depth=16)
        town.keep_busy(Work("quiet", wait_s=5.0), clients=2)
        await town.send_steadily(Work("noisy", wait_s=5.0), per_second=100, for_s=120)
        quiet, noisy = town.tally("quiet"), town.tally("noisy")
        assert quiet.offered > 150
        assert not quiet.refused
        assert max(quiet.waited_s) < 1.5  # until some seat comes free, never behind the flood
        assert sum(quiet.waited_s) / len(quiet.waited_s) < 0.3
        assert set(noisy.refused) <= {
            *("rejected queue_full", "evicted tenant_limit", "evicted queue_timeout"),
            "rejected deadline_unreachable",
        }
        assert len(noisy.waited_s) > 5 * 120  # and the flood has the rest of the engine
        await town.close()

    run(scenario())


def test_who_comes_to_a_full_engine_soon_has_its_share() -> None:
    async def scenario() -> None:
        town = Town(seats=40)
        town.keep_busy(Work("first", mean_s=5.0), clients=80)
        await town.mean_seats(after_s=300, over_s=1)
        town.keep_busy(Work("second", mean_s=5.0), clients=80)
        soon = await town.mean_seats(after_s=8, over_s=10)
        assert soon["second"] > 0.9 * 20
        later = await town.mean_seats(after_s=60, over_s=300)
        check_fair(later, {"first": math.inf, "second": math.inf})
        await town.close()

    run(scenario())


def test_nobody_pays_for_seats_that_nobody_else_wanted() -> None:
    async def scenario() -> None:
        town = Town(seats=40)
        town.keep_busy(Work("alone", mean_s=5.0), clients=40)
        await town.mean_seats(after_s=3600, over_s=1)
        town.keep_busy(Work("alone", mean_s=5.0), clients=40)
        town.keep_busy(Work("newcomer", mean_s=5.0), clients=80)
        measured = await town.mean_seats(after_s=15, over_s=60)
        assert measured["alone"] > 0.8 * 20
        await town.close()

    run(scenario())
