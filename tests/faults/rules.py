"""The matrix: for each fault and each point what is promised.

A row has a rule for each point of a request's life, in the order of Point:

    head, body, queued, granted, connecting, sent, headers, between, last, idle
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from tests.faults.matrix import (
    BROKEN_DRAINING,
    CUT_UNREAD,
    DRAINED_UNANSWERED,
    DROPPED,
    IDLE_END,
    IDLE_KEPT,
    LEFT,
    LEFT_UNSENT,
    NOT_READ,
    OWN_BREAK,
    OWN_FAULT,
    OWN_FAULT_LATE,
    RESENT,
    SERVED,
    SHED_DRAINING,
    Engine,
    Fault,
    Impossible,
    Point,
    Promise,
    broken,
    failed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.faults.matrix import Rule

ClientKind = Literal["pool", "httpx"]
CLIENT_KINDS: tuple[ClientKind, ...] = ("pool", "httpx")

_NOT_DUE = Impossible("Nothing is due from the engine yet.")
_READS_NOTHING = Impossible("It is sent nothing that it could leave unread.")
_UNTELLABLE = Impossible(
    "An answer that lies in the socket before the request is sent cannot be told from the answer "
    "to it: the engine is trusted to say one for each request."
)
_UNASKED = Impossible("The same: an engine that answers before it is asked.")
_TOO_SOON = Impossible("Half an answer that nobody asked for is garbage: see there.")
_DOES_NOTHING = Impossible("Nothing is done that memory could be wanting for.")
_IDLE_IS_SILENT = Impossible("A connection that rests is silent.")

_CLOSED = failed("upstream_closed")
_NO_ENGINE = failed("upstream_connect", Engine.NOTHING)
# The system ends the connections of a process that is killed one by one: the seat that comes free
# with the first of them may be used while the engine's port still takes connections.
_DYING_ENGINE = failed("upstream_connect", Engine.NOTHING, or_code="upstream_closed")
_CLOSED_UNREAD = failed("upstream_closed", Engine.NOTHING)
_PROTOCOL = failed("upstream_protocol", Engine.ABORTED)
_PROTOCOL_UNREAD = failed("upstream_protocol", Engine.UNCERTAIN)
_TIMEOUT = failed("upstream_timeout", Engine.ABORTED)
_BROKEN = broken("upstream_closed")
_BROKEN_PROTOCOL = broken("upstream_protocol", Engine.ABORTED)
_BROKEN_TIMEOUT = broken("upstream_timeout", Engine.ABORTED)

_CLIENT_LEAVES = (
    NOT_READ, LEFT_UNSENT, LEFT_UNSENT, LEFT, LEFT_UNSENT, LEFT, LEFT, LEFT, LEFT, IDLE_END,
)  # fmt: skip

ROWS: Mapping[Fault, tuple[Rule, ...]] = {
    Fault.CLIENT_FIN: _CLIENT_LEAVES,
    Fault.CLIENT_RST: _CLIENT_LEAVES,
    Fault.CLIENT_HALF_CLOSE: _CLIENT_LEAVES,
    Fault.CLIENT_STOPS_READING: (
        DROPPED, DROPPED, DROPPED, DROPPED, DROPPED, DROPPED, DROPPED, DROPPED, SERVED,
        _READS_NOTHING,
    ),
    Fault.ENGINE_RST: (
        SERVED, SERVED, SERVED, RESENT, _NO_ENGINE, _CLOSED, _BROKEN, _BROKEN, _BROKEN, IDLE_END,
    ),
    Fault.ENGINE_FIN: (
        SERVED, SERVED, SERVED, RESENT, _CLOSED_UNREAD, _CLOSED, _BROKEN, _BROKEN, _BROKEN,
        IDLE_END,
    ),
    Fault.ENGINE_SILENCE: (
        _NOT_DUE, _NOT_DUE, SERVED, _TIMEOUT, _NO_ENGINE, _TIMEOUT, _BROKEN_TIMEOUT,
        _BROKEN_TIMEOUT, _BROKEN_TIMEOUT, _IDLE_IS_SILENT,
    ),
    Fault.ENGINE_GARBAGE: (
        SERVED, SERVED, SERVED, _PROTOCOL_UNREAD, _PROTOCOL_UNREAD, _PROTOCOL,
        _BROKEN_PROTOCOL, _BROKEN_PROTOCOL, _BROKEN_PROTOCOL, IDLE_END,
    ),
    Fault.ENGINE_TOO_MUCH: (
        SERVED, SERVED, SERVED, _UNTELLABLE, _UNASKED, SERVED, SERVED, SERVED, SERVED, IDLE_END,
    ),
    Fault.ENGINE_TOO_LITTLE: (
        _NOT_DUE, _NOT_DUE, SERVED, _CLOSED_UNREAD, _TOO_SOON, _CLOSED, _BROKEN, _BROKEN,
        _BROKEN, _NOT_DUE,
    ),
    Fault.ENGINE_SLOW: (
        _NOT_DUE, _NOT_DUE, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, _NOT_DUE,
    ),
    Fault.ENGINE_KILLED: (
        _NO_ENGINE, _NO_ENGINE, _DYING_ENGINE, _NO_ENGINE, _NO_ENGINE, _CLOSED, _BROKEN, _BROKEN,
        _BROKEN, IDLE_END,
    ),
    Fault.ENGINE_TERMINATED: (
        _NO_ENGINE, _NO_ENGINE, _NO_ENGINE, _NO_ENGINE, _NO_ENGINE, SERVED, SERVED, SERVED,
        SERVED, IDLE_END,
    ),
    Fault.NO_DESCRIPTORS: (
        SERVED, SERVED, SERVED, SERVED, _NO_ENGINE, SERVED, SERVED, SERVED, SERVED, IDLE_KEPT,
    ),
    Fault.NO_MEMORY: (
        CUT_UNREAD, OWN_FAULT, OWN_FAULT, OWN_FAULT, OWN_FAULT, OWN_FAULT_LATE, OWN_BREAK,
        OWN_BREAK, OWN_BREAK, _DOES_NOTHING,
    ),
    Fault.CLOCK_JUMP: (
        SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, IDLE_KEPT,
    ),
    Fault.LOOP_STALL: (
        SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, IDLE_KEPT,
    ),
    Fault.REDIS_GONE: (
        SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, IDLE_KEPT,
    ),
    Fault.DRAIN: (
        CUT_UNREAD, SHED_DRAINING, SHED_DRAINING, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED,
        IDLE_END,
    ),
    Fault.DRAIN_OVER: (
        CUT_UNREAD, SHED_DRAINING, SHED_DRAINING, DRAINED_UNANSWERED, SHED_DRAINING,
        DRAINED_UNANSWERED, BROKEN_DRAINING, BROKEN_DRAINING, BROKEN_DRAINING, IDLE_END,
    ),
}  # fmt: skip

_HTTPX_READS_ON = Impossible(
    "With `SLUICE_UPSTREAM_CLIENT=httpx`, bytes that come together with an answer and behind it "
    "are read as the answer to the next request on that connection. Use it with engines that "
    "you trust."
)
OF_HTTPX: Mapping[tuple[Fault, Point], Rule] = {
    # It looks whether there is anything to read before it takes a connection that rested.
    (Fault.ENGINE_GARBAGE, Point.GRANTED): SERVED,
    (Fault.ENGINE_TOO_LITTLE, Point.GRANTED): SERVED,
    **{
        (Fault.ENGINE_TOO_MUCH, point): _HTTPX_READS_ON
        for point in (Point.QUEUED, Point.SENT, Point.HEADERS, Point.BETWEEN, Point.LAST)
    },
}
"""Where the httpx client does not promise what the own pool does."""


@dataclass(frozen=True)
class Cell:
    point: Point
    fault: Fault
    stream: bool
    client_kind: ClientKind

    @property
    def rule(self) -> Rule:
        if self.client_kind == "httpx":
            return OF_HTTPX.get((self.fault, self.point)) or rule(self.fault, self.point)
        return rule(self.fault, self.point)

    @property
    def promise(self) -> Promise:
        found = self.rule
        assert isinstance(found, Promise)
        return found

    def __str__(self) -> str:
        form = "stream" if self.stream else "plain"
        return f"{self.fault.value}-{self.point.value}-{form}-{self.client_kind}".replace(" ", "_")


def rule(fault: Fault, point: Point) -> Rule:
    return ROWS[fault][list(Point).index(point)]


def cells(faults: Iterable[Fault]) -> list[Cell]:
    """All that exist, the client kinds one after the other: each has a gateway of its own."""
    every = [
        Cell(point, fault, stream, kind)
        for kind, fault, point, stream in product(CLIENT_KINDS, faults, Point, (False, True))
    ]
    return [cell for cell in every if isinstance(cell.rule, Promise)]
