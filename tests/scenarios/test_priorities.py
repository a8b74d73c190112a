"""Three priorities through the controller: who goes first, what trickles, who makes room."""

from __future__ import annotations

import asyncio
import math

import pytest

from proxy.admission.request import Priority
from tests.support.tenants import Town, Work, max_min_shares
from tests.support.virtual_time import run, settle

HIGH, NORMAL, LOW = Priority


def test_a_higher_priority_gets_all_it_wants_but_for_the_trickle() -> None:
    async def scenario() -> None:
        town = Town(seats=20)
        for name, priority in (("h", HIGH), ("l", LOW)):
            town.keep_busy(Work(name, mean_s=2.0, priority=priority), clients=60)
        seats = await town.mean_seats(after_s=60, over_s=1200)
        assert seats["l"] == pytest.approx(0.05 * 20, rel=0.05)
        assert seats["h"] == pytest.approx(0.95 * 20, rel=0.05)
        await town.close()

    run(scenario())


def test_the_trickle_of_wide_requests_is_a_share_of_the_seats_granted() -> None:
    async def scenario() -> None:
        town = Town(seats=20)
        town.keep_busy(Work("h", widths=(1, 2), priority=HIGH), clients=60)
        town.keep_busy(Work("l", widths=(8,), priority=LOW), clients=10)
        seats = await town.mean_seats(after_s=60, over_s=1200)
        assert seats["l"] / sum(seats.values()) == pytest.approx(0.05, rel=0.05)
        await town.close()

    run(scenario())


def test_a_low_request_is_served_under_a_flood_of_high_ones() -> None:
    async def scenario() -> None:
        town = Town(seats=8)
        town.keep_busy(Work("h", priority=HIGH), clients=100)
        await asyncio.sleep(10)
        town.send(Work("l", priority=LOW))
        await asyncio.sleep(10)
        (waited_s,) = town.tally("l", LOW).waited_s
        assert waited_s < 4  # 19 seats at 8 a second, and some patience
        await town.close()

    run(scenario())


def test_what_the_higher_priority_leaves_is_shared_fairly_below() -> None:
    async def scenario() -> None:
        weights = {"b": 2.0}
        town = Town(seats=40, weights=weights)
        town.keep_busy(Work("h", mean_s=2.0, priority=HIGH), clients=10)
        town.keep_busy(Work("a", mean_s=5.0), clients=60)
        town.keep_busy(Work("b", widths=(1, 2, 3)), clients=60)
        seats = await town.mean_seats(after_s=60, over_s=900)
        fair = max_min_shares(
            sum(seats.values()) - seats["h"], {"a": math.inf, "b": math.inf}, weights
        )
        assert seats["h"] > 9.5
        assert {name: seats[name] for name in "ab"} == pytest.approx(fair, rel=0.05)
        await town.close()

    run(scenario())


def test_seats_in_a_higher_priority_count_against_a_tenant_in_a_lower() -> None:
    async def scenario() -> None:
        town = Town(seats=40)
        town.keep_busy(Work("a", mean_s=2.0, priority=HIGH), clients=10)
        town.keep_busy(Work("a", mean_s=2.0), clients=60)
        town.keep_busy(Work("b", mean_s=2.0), clients=60)
        seats = await town.mean_seats(after_s=120, over_s=900)
        assert seats == pytest.approx({"a": 20.0, "b": 20.0}, rel=0.05)
        await town.close()

    run(scenario())


def test_a_cap_holds_over_all_priorities() -> None:
    async def scenario() -> None:
        town = Town(seats=40, cap=10)
        for priority in Priority:
            town.keep_busy(Work("a", widths=(1, 3), priority=priority), clients=20)
        most = 0
        for _ in range(600):
            await asyncio.sleep(0.1)
            most = max(most, town.controller.snapshot().in_flight)
        assert 8 < most <= 10
        await town.close()

    run(scenario())


def test_in_a_full_queue_the_newest_low_waiter_makes_room_for_a_higher() -> None:
    async def scenario() -> None:
        town = Town(seats=1, max_queue_depth=3)
        town.send(Work("runs", mean_s=100.0))
        await settle()
        for tenant in ("low 1", "low 2"):
            town.send(Work(tenant, priority=LOW))
            await settle()
        town.send(Work("normal"))
        await settle()
        for tenant in ("high 1", "high 2", "high 3", "high 4"):
            town.send(Work(tenant, priority=HIGH))
            await settle()
        refused = {
            whose: dict(tally.refused)
            for (whose, _), tally in town.tallies.items()
            if tally.refused
        }
        assert refused == {
            "low 2": {"evicted queue_full": 1},
            "low 1": {"evicted queue_full": 1},
            "normal": {"evicted queue_full": 1},
            "high 4": {"rejected queue_full": 1},
        }
        await town.close()

    run(scenario())


def test_a_storm_of_low_requests_does_not_shut_a_higher_one_out() -> None:
    async def scenario() -> None:
        town = Town(seats=8, max_queue_depth=16)
        storm = asyncio.create_task(
            town.send_steadily(Work("l", priority=LOW, wait_s=5.0), per_second=50, for_s=60)
        )
        await asyncio.sleep(5)
        await town.send_steadily(Work("h", priority=HIGH, wait_s=5.0), per_second=4, for_s=50)
        await storm
        high = town.tally("h", HIGH)
        assert not high.refused
        assert max(high.waited_s) < 1.0
        assert len(town.tally("l", LOW).waited_s) > 3 * 60
        await town.close()

    run(scenario())
