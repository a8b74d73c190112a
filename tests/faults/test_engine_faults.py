"""Engines that break off, fall silent, talk nonsense or too much, at every point of a life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.telemetry.request_outcome import RequestOutcome
from tests.faults import scripted_engine as engine
from tests.faults.cell import judge
from tests.faults.matrix import Fault, Point
from tests.faults.scene import Scene
from tests.faults.stand import HASTY, Stand, Stands, each_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.rules import Cell
    from tests.support.scripted_exchange import Connection

_ENDINGS: dict[Fault, engine.Ending] = {
    Fault.ENGINE_RST: engine.reset,
    Fault.ENGINE_FIN: engine.close,
    Fault.ENGINE_SILENCE: engine.fall_silent,
    Fault.ENGINE_GARBAGE: engine.talk_nonsense,
    Fault.ENGINE_TOO_MUCH: engine.say_too_much,
    Fault.ENGINE_TOO_LITTLE: engine.say_too_little,
    Fault.ENGINE_SLOW: engine.dribble,
}
_UNASKED: dict[Fault, Callable[[Connection], None]] = {
    Fault.ENGINE_RST: engine.reset_connection,
    Fault.ENGINE_FIN: engine.close_connection,
    Fault.ENGINE_GARBAGE: engine.say(engine.GREETING),
    Fault.ENGINE_TOO_MUCH: engine.say(engine.answer(stream=False).whole),
    Fault.ENGINE_TOO_LITTLE: engine.say_and_close(b"HTTP/1.1 200 OK\r\nContent-"),
}
"""What is done to a connection on which no answer is due: one that rests, or is just made."""
_SERVED = (Fault.ENGINE_TOO_MUCH, Fault.ENGINE_SLOW)


@each_cell(*(fault for fault in _ENDINGS if fault is not Fault.ENGINE_SILENCE))
def test_an_engine_that_misbehaves(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)
    stand.run(misbehaving(stand, cell))


@each_cell(Fault.ENGINE_SILENCE)
def test_an_engine_that_falls_silent(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind, HASTY)
    stand.run(misbehaving(stand, cell))


async def misbehaving(stand: Stand, cell: Cell) -> None:
    # Of a body with a length every byte is right.
    is_chunked = cell.fault is Fault.ENGINE_GARBAGE
    said = engine.answer(stream=cell.stream, chunked=is_chunked)
    async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
        match cell.point:
            case Point.HEAD | Point.BODY | Point.IDLE:
                await strike_those_that_rest(stand, cell.fault)
                scene.order(engine.finish)
                scene.send_the_rest()
            case Point.QUEUED:
                scene.order(engine.finish)
                scene.order_holders(_ENDINGS[cell.fault])
            case Point.GRANTED:
                await strike_the_one_that_is_taken(scene, cell.fault)
            case Point.CONNECTING:
                await strike_the_one_that_is_made(scene, cell.fault)
            case _:
                scene.order(_ENDINGS[cell.fault])
        await judge(scene, cell, became_of_holders(cell.fault))


def became_of_holders(fault: Fault) -> RequestOutcome:
    return RequestOutcome.OK if fault in _SERVED else RequestOutcome.UPSTREAM_ERROR


async def strike_those_that_rest(stand: Stand, fault: Fault) -> None:
    strike = _UNASKED[fault]
    for connection in stand.engine.connections:
        strike(connection)
    await stand.until_no_connection_is_kept()


async def strike_the_one_that_is_taken(scene: Scene, fault: Fault) -> None:
    """While the gateway stands still between the grant and the request."""
    if fault in (Fault.ENGINE_SILENCE, Fault.ENGINE_SLOW):
        scene.order(_ENDINGS[fault])
    else:
        scene.order(engine.finish)
        for connection in scene.stand.engine.connections:
            _UNASKED[fault](connection)
        await scene.stand.settle()
    scene.thaw()


async def strike_the_one_that_is_made(scene: Scene, fault: Fault) -> None:
    match fault:
        case Fault.ENGINE_SILENCE:
            await scene.hang_while_connecting()
        case Fault.ENGINE_SLOW:
            scene.order(engine.finish)
            await scene.hang_while_connecting()
            await scene.connect_at_last()
        case Fault.ENGINE_RST:
            scene.stand.engine.stop_listening()
            scene.thaw()
        case _:
            scene.order(engine.finish)
            scene.stand.engine.greet = _UNASKED[fault]
            scene.thaw()
