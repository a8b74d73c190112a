"""Holds what happened in a cell against what is promised."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy.telemetry.request_outcome import RequestOutcome
from tests.faults.matrix import DROPPED, IDLE_KEPT, Client, Engine, Fault, Point
from tests.faults.scene import HOLDERS, SUBJECT

if TYPE_CHECKING:
    from tests.faults.rules import Cell
    from tests.faults.scene import Scene
    from tests.faults.watching_client import Seen

_HAS_LEFT = (Fault.CLIENT_FIN, Fault.CLIENT_RST)
_LEAVES = (*_HAS_LEFT, Fault.CLIENT_HALF_CLOSE)


async def judge(
    scene: Scene,
    cell: Cell,
    holders: RequestOutcome = RequestOutcome.OK,
    *,
    engine_is_seen: bool = True,
    gateway_ends: bool = False,
    others: bool = False,
) -> None:
    """Once the fault has struck, and all that is still to come was let go.

    `holders`: what became of the requests that had the seats, where there were some. Where there
    are `others` in this process, sockets cannot be counted for one.
    """
    promise, stand = cell.promise, scene.stand
    await _client_saw(scene, cell, gateway_ends=gateway_ends)
    expected = Counter({RequestOutcome.OK.value: scene.served_beside})
    if promise.outcome is not None:
        expected[promise.outcome] += 1
    if cell.point is Point.QUEUED:
        expected[holders] += len(HOLDERS)
    await stand.until_ended(expected.total())
    await scene.leave()
    if gateway_ends:
        await stand.gateway_has_ended()
    else:
        await stand.nothing_is_left()
    await stand.engine.until(lambda: stand.engine.inflight == 0)
    counted = stand.counted()
    assert counted == +expected, f"counted {counted}, not {expected}"
    if engine_is_seen:
        _engine_saw(scene, promise.engine)
    if gateway_ends:
        return
    if not stand.engine.is_listening:
        await stand.engine.listen()
    await stand.capacity_is_exact()
    if not others:
        await stand.no_socket_is_left()


async def _client_saw(scene: Scene, cell: Cell, *, gateway_ends: bool) -> None:
    client = scene.client
    match cell.promise.client:
        case Client.RESTING:
            await _what_rested_is_as_promised(scene, cell, gateway_ends=gateway_ends)
        case Client.GONE:
            if cell.fault not in _HAS_LEFT:
                await client.until(lambda: client.is_over, "the end of its connection")
                assert (await client.see()).client in (Client.CLOSED, Client.BROKEN)
        case _:
            _same(await client.see(), scene, cell)


async def _what_rested_is_as_promised(scene: Scene, cell: Cell, *, gateway_ends: bool) -> None:
    client, engine = scene.client, scene.stand.engine
    if cell.fault in _LEAVES:
        await scene.stand.until(lambda held: held.clients == 0)
    elif gateway_ends:
        await client.until(lambda: client.is_over, "the end of its connection")
    elif engine.is_listening:  # and was not killed
        made = engine.connections_accepted
        await scene.serve_the_next()
        if cell.promise is IDLE_KEPT:
            assert engine.connections_accepted == made, "the engine's connection was not kept"


def _same(seen: Seen, scene: Scene, cell: Cell) -> None:
    promise = cell.promise
    assert seen.client is promise.client, seen
    assert seen.status == promise.status, seen
    match seen.client:
        case Client.WHOLE:
            assert seen.body == scene.said.body
        case Client.REFUSED:
            assert seen.code in {promise.code, promise.or_code or promise.code}
            assert seen.may_come_back is (promise.outcome is RequestOutcome.SHED), seen
        case Client.BROKEN:
            assert b"[DONE]" not in seen.body or cell.point is Point.LAST
            assert seen.code == (promise.code if cell.stream else "")
            assert scene.client.was_reset or promise is not DROPPED


def _engine_saw(scene: Scene, expected: Engine) -> None:
    if expected is Engine.UNCERTAIN:
        return
    seen = scene.stand.engine.seen_by(SUBJECT)
    asked = 0 if expected is Engine.NOTHING else 1
    assert len(seen) == asked, f"the engine was asked {len(seen)} times"
    for request in seen:
        assert request.aborted is (expected is Engine.ABORTED), request
