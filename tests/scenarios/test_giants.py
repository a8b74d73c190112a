"""A request that needs all of the engine, among small ones: it is served in time, and they go on.

One tenant, one priority, as without client keys: what helps here is the bypass, not fairness.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.tenants import Town, Work
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.admission.permit import Permit
    from proxy.admission.request import AdmissionRequest

SEATS = 16
SMALL = Work("", mean_s=1.0, wait_s=20.0)


class Square(Town):
    """Notes when which width was granted, and how long it had waited."""

    def __init__(self) -> None:
        super().__init__(SEATS)
        self.grants: list[tuple[float, int, float]] = []

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        super().admitted(request, permit)
        self.grants.append((now(), permit.seats, permit.time_in_queue_s))

    def small_per_s(self, after_s: float, before_s: float) -> float:
        small = [at for at, seats, _ in self.grants if seats == 1 and after_s <= at < before_s]
        return len(small) / (before_s - after_s)


def giant(wait_s: float, mean_s: float = 1.0) -> Work:
    return Work("", mean_s=mean_s, widths=(SEATS,), wait_s=wait_s)


@pytest.mark.parametrize("wait_s", [6.0, 10.0, 30.0])
def test_a_giant_is_served_within_its_time_and_the_small_go_on_while_it_waits(
    wait_s: float,
) -> None:
    async def scenario() -> None:
        town = Square()
        town.keep_busy(SMALL, clients=2 * SEATS)
        await asyncio.sleep(60)
        usual = town.small_per_s(30, 60)
        town.send(giant(wait_s))
        await asyncio.sleep(wait_s)
        ((at, _, waited_s),) = [grant for grant in town.grants if grant[1] == SEATS]
        assert waited_s < wait_s
        assert town.small_per_s(60, at) > 0.3 * usual
        await town.close()

    run(scenario())


def test_one_giant_after_the_other_leaves_the_small_ones_their_turns() -> None:
    async def scenario() -> None:
        town = Square()
        town.keep_busy(SMALL, clients=SEATS + 2)
        await asyncio.sleep(60)
        usual = town.small_per_s(30, 60)
        town.keep_busy(giant(wait_s=30.0), clients=1)
        await asyncio.sleep(300)
        giants = sum(seats == SEATS for at, seats, _ in town.grants if at > 60)
        assert giants > 300 / 10
        assert town.small_per_s(60, 360) > 0.5 * usual
        assert not town.tally("").refused
        await town.close()

    run(scenario())


def test_giants_that_cannot_be_served_in_time_cost_the_small_ones_nothing() -> None:
    async def scenario() -> None:
        town = Square()
        town.keep_busy(Work("", mean_s=10.0, wait_s=60.0), clients=SEATS + 2)
        await asyncio.sleep(120)
        usual = town.small_per_s(60, 120)
        await town.send_steadily(giant(wait_s=5.0, mean_s=10.0), per_second=0.2, for_s=120)
        assert town.small_per_s(120, 240) > 0.9 * usual
        assert town.tally("").refused["evicted queue_timeout"] > 20, "they were in the queue"
        await town.close()

    run(scenario())
