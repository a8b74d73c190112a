"""Clients that leave or stop reading, at every point of a request's life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.cell import judge
from tests.faults.matrix import Fault, Point
from tests.faults.rules import CLIENT_KINDS
from tests.faults.scene import Scene
from tests.faults.scripted_engine import answer, endless_answer, finish, flood
from tests.faults.stand import Stands, each_cell
from tests.faults.watching_client import WatchingClient

if TYPE_CHECKING:
    from tests.faults.rules import Cell, ClientKind

_LEAVING = (Fault.CLIENT_FIN, Fault.CLIENT_RST, Fault.CLIENT_HALF_CLOSE)


@each_cell(*_LEAVING)
def test_a_client_that_leaves(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        said = answer(stream=cell.stream)
        async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
            if cell.point is Point.CONNECTING:
                await scene.hang_while_connecting()
            match cell.fault:
                case Fault.CLIENT_FIN:
                    scene.client.fin()
                case Fault.CLIENT_RST:
                    scene.client.rst()
                case _:
                    scene.client.half_close()
            scene.thaw()
            if cell.point is Point.QUEUED:
                await stand.until(lambda held: held.queue_depth == 0)
                scene.order_holders(finish)
            await judge(scene, cell)

    stand.run(scenario())


@each_cell(Fault.CLIENT_STOPS_READING)
def test_a_client_that_stops_reading(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        is_last = cell.point is Point.LAST  # what is left has room on the way
        said = answer(stream=cell.stream) if is_last else endless_answer(stream=cell.stream)
        async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
            scene.client.stop_reading()
            if cell.point is Point.CONNECTING:
                await scene.hang_while_connecting()
                await scene.connect_at_last()
            scene.thaw()
            scene.send_the_rest()
            scene.order_holders(finish)
            scene.order(finish if is_last else flood)
            await stand.until_ended(scene.requests)
            scene.client.read_on()
            await judge(scene, cell)

    stand.run(scenario())


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_an_http_1_0_client_that_stopped_reading_sees_a_reset(
    stands: Stands, kind: ClientKind
) -> None:
    """Its body ends with the connection: what the kernel still held, and then an orderly end,
    would pass for the whole answer."""
    stand = stands.of(kind)

    async def scenario() -> None:
        said = endless_answer(stream=True)
        async with Scene.at(stand, Point.IDLE, said, stream=True) as scene:
            client = await WatchingClient.connect(stand.port)
            client.stop_reading()
            client.send(scene.request().replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            scene.order(flood)
            await stand.until_ended(2)
            client.read_on()
            await client.until(lambda: client.is_over, "an end")
            assert client.was_reset

    stand.run(scenario())
