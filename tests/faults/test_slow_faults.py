"""A gateway whose loop stands still, or that is told to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.telemetry.request_outcome import RequestOutcome
from tests.faults.cell import judge
from tests.faults.gateway_faults import stall
from tests.faults.matrix import Fault, Point
from tests.faults.together import every_form, every_kind, strike_all

if TYPE_CHECKING:
    from tests.faults.rules import Cell, ClientKind
    from tests.faults.scene import Scene


@every_form
@every_kind
def test_a_gateway_whose_loop_stands_still(kind: ClientKind, stream: bool) -> None:
    async def strike(scene: Scene, cell: Cell) -> None:
        scene.stand.gateway.soon(stall)
        await asyncio.sleep(0.1)
        scene.go_on()
        await judge(scene, cell, others=True)

    strike_all(Fault.LOOP_STALL, kind, strike, stream=stream)


@every_form
@every_kind
def test_a_gateway_that_is_told_to_stop(kind: ClientKind, stream: bool) -> None:
    async def strike(scene: Scene, cell: Cell) -> None:
        await begin_stop(scene, 5.0)
        if cell.point is not Point.HEAD:  # it is cut, unless it is very quick
            scene.go_on()
        await judge(scene, cell, gateway_ends=True)

    strike_all(Fault.DRAIN, kind, strike, stream=stream)


@every_form
@every_kind
def test_a_gateway_that_cannot_wait_any_longer(kind: ClientKind, stream: bool) -> None:
    async def strike(scene: Scene, cell: Cell) -> None:
        await begin_stop(scene, 0.1)
        await judge(scene, cell, RequestOutcome.SHED, gateway_ends=True)

    strike_all(Fault.DRAIN_OVER, kind, strike, stream=stream)


async def begin_stop(scene: Scene, drain_timeout_s: float) -> None:
    gateway = scene.stand.gateway
    if scene.point is Point.CONNECTING:
        await scene.hang_while_connecting()
    gateway.stop_within(drain_timeout_s)
    scene.thaw()
    async with asyncio.timeout(5):
        while not gateway.is_draining:
            await asyncio.sleep(0.001)
    if scene.point is Point.CONNECTING and drain_timeout_s > 1:
        await scene.connect_at_last()
