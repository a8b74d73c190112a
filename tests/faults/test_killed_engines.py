"""Engines that are processes, and get SIGKILL or SIGTERM at every point of a request's life."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from proxy.telemetry.request_outcome import RequestOutcome
from tests.faults.cell import judge
from tests.faults.engine_process import engine_process
from tests.faults.matrix import Fault, Point
from tests.faults.scene import IN_AN_ANSWER, Scene, held_at
from tests.faults.scripted_engine import answer, finish
from tests.faults.stand import Stand, Stands, each_cell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.faults.engine_process import EngineProcess
    from tests.faults.rules import Cell


@each_cell(Fault.ENGINE_KILLED)
def test_an_engine_that_is_killed(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        async with in_front_of_a_process(stand, cell) as (scene, process):
            await process.kill()
            await see_it_through(scene, cell, RequestOutcome.UPSTREAM_ERROR)

    stand.run(scenario())


@each_cell(Fault.ENGINE_TERMINATED)
def test_an_engine_that_is_told_to_stop(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        async with in_front_of_a_process(stand, cell) as (scene, process):
            await process.terminate()
            if cell.point is Point.QUEUED:
                scene.order_holders(finish)
            elif cell.point is Point.SENT or cell.point in IN_AN_ANSWER:
                scene.order(finish)
            await process.ended()
            await see_it_through(scene, cell, RequestOutcome.OK)

    stand.run(scenario())


async def see_it_through(scene: Scene, cell: Cell, holders: RequestOutcome) -> None:
    await scene.stand.settle()
    scene.thaw()
    scene.send_the_rest()
    await judge(scene, cell, holders, engine_is_seen=False)


@asynccontextmanager
async def in_front_of_a_process(
    stand: Stand, cell: Cell
) -> AsyncIterator[tuple[Scene, EngineProcess]]:
    """On the port of the usual engine, which comes back in the end."""
    said = answer(stream=cell.stream)
    await stand.forget_connections()
    stand.engine.stop_listening()
    try:
        with engine_process(stand.engine.port, held_at(cell.point, said)) as process:
            await stand.engine.until(lambda: process.is_listening)
            at = Scene.at(stand, cell.point, said, stream=cell.stream, script=process)
            async with at as scene:
                yield scene, process
    finally:
        if not stand.engine.is_listening:
            await stand.engine.listen()
