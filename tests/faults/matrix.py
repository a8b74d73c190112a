"""What can go wrong, when, and what is promised then: the words of the matrix.

A cell is a point of a request's life and a fault that strikes at that point. `rules.py` says what
is promised in each; the tests and docs/fault-matrix.md are made from it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from proxy.telemetry.request_outcome import RequestOutcome


class Point(enum.Enum):
    """Where in its life a request is when the fault strikes, in their order."""

    HEAD = "reading head"
    BODY = "reading body"
    QUEUED = "queued"
    GRANTED = "granted"
    CONNECTING = "connecting"
    SENT = "sent"
    HEADERS = "headers"
    BETWEEN = "between chunks"
    LAST = "last chunk"
    IDLE = "keep-alive"


POINTS_IN_WORDS = {
    Point.HEAD: "Half of the request's head has come.",
    Point.BODY: "The head and half of the body have come.",
    Point.QUEUED: "Every seat is taken and the request waits for one.",
    Point.GRANTED: "It has got a seat, in this very step of the event loop, and will be sent over "
    "a connection that rests in the pool.",
    Point.CONNECTING: "It has a seat, no connection rests, and a new one is being made.",
    Point.SENT: "The engine has all of the request and has answered nothing.",
    Point.HEADERS: "The head of the answer has come, and nothing of its body.",
    Point.BETWEEN: "A part of the body has come.",
    Point.LAST: "All of the answer has come but its end: the last chunk, or the last byte.",
    Point.IDLE: "The answer is over; the client's connection and the engine's are kept, and rest.",
}


class Fault(enum.Enum):
    CLIENT_FIN = "client FIN"
    CLIENT_RST = "client RST"
    CLIENT_HALF_CLOSE = "client half-close"
    CLIENT_STOPS_READING = "client stops reading"
    ENGINE_RST = "engine RST"
    ENGINE_FIN = "engine FIN"
    ENGINE_SILENCE = "engine silent"
    ENGINE_GARBAGE = "engine garbage"
    ENGINE_TOO_MUCH = "engine too much"
    ENGINE_TOO_LITTLE = "engine too little"
    ENGINE_SLOW = "engine slow"
    ENGINE_KILLED = "engine SIGKILL"
    ENGINE_TERMINATED = "engine SIGTERM"
    NO_DESCRIPTORS = "out of descriptors"
    NO_MEMORY = "memory pressure"
    CLOCK_JUMP = "clock jump"
    LOOP_STALL = "loop stall of 2 s"
    REDIS_GONE = "Redis gone"
    DRAIN = "gateway SIGTERM"
    DRAIN_OVER = "drain timeout over"


FAULTS_IN_WORDS = {
    Fault.CLIENT_FIN: "The client closes its connection in good order.",
    Fault.CLIENT_RST: "The client's connection ends with a reset.",
    Fault.CLIENT_HALF_CLOSE: "The client says that it will send nothing more, and goes on reading. "
    "Nearly all who do that have left, and nothing tells the others apart: it counts as leaving.",
    Fault.CLIENT_STOPS_READING: "The client reads nothing from that point on, and the answer is "
    "larger than all the buffers on the way.",
    Fault.ENGINE_RST: "The engine resets the connection that the request is on, or would take.",
    Fault.ENGINE_FIN: "The engine closes that connection in good order.",
    Fault.ENGINE_SILENCE: "The engine sends nothing more, and keeps the connection.",
    Fault.ENGINE_GARBAGE: "The engine sends what is not HTTP/1.1: a greeting of SSH and an empty "
    "line in the place of an answer, or something else in the place of a chunk.",
    Fault.ENGINE_TOO_MUCH: "The engine sends a second answer behind the first, or one that nobody "
    "asked for.",
    Fault.ENGINE_TOO_LITTLE: "The engine sends half a head, or less than it has announced, and "
    "closes.",
    Fault.ENGINE_SLOW: "The engine sends the rest a byte at a time.",
    Fault.ENGINE_KILLED: "The engine is a process of its own, and gets SIGKILL.",
    Fault.ENGINE_TERMINATED: "It gets SIGTERM: it listens no more, closes what rests, finishes "
    "what runs and ends.",
    Fault.NO_DESCRIPTORS: (
        "The gateway's limit of open files is set to what it has open, and no connection to an "
        "engine rests that could be given up."
    ),
    Fault.NO_MEMORY: "The next step on the request's way raises MemoryError.",
    Fault.CLOCK_JUMP: "The wall clock jumps an hour forth, and then a day back. All "
    "waits are measured on the monotonic clock, which cannot jump.",
    Fault.LOOP_STALL: "The gateway's event loop does nothing for 2 s, while everybody else goes "
    "on. Its limits of time are longer than that, as they are by default. One that runs out "
    "meanwhile, of a client or of an engine, is judged once what came in time is read; over httpx "
    "not those of connecting and of sending. Who has waited in the queue for too long is told so "
    "at once, even where a seat came free meanwhile.",
    Fault.REDIS_GONE: "The limit is shared through Redis, and Redis gets SIGKILL.",
    Fault.DRAIN: "The gateway does what it does at SIGTERM, and what runs finishes within its "
    "drain timeout.",
    Fault.DRAIN_OVER: "The same, and what runs does not finish within it.",
}


class Client(enum.Enum):
    """What the client has seen when all is over."""

    GONE = "nothing: it has left"
    WHOLE = "a complete answer of the engine's"
    REFUSED = "a complete answer of ours"
    BROKEN = "an answer that is not complete on the wire"
    CLOSED = "its connection end, without an answer"
    RESTING = "nothing: it asks for nothing"


class Engine(enum.Enum):
    """What the engine has seen of the request."""

    NOTHING = "nothing of it"
    WHOLE = "all of it, and its answer taken"
    ABORTED = "all of it, and then its connection closed before the answer was finished"
    FAILED = "all of it; it is the engine that ended it"
    UNCERTAIN = "perhaps all of it, perhaps nothing"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """`name` stands in the matrix, `words` below it.

    `outcome` is counted once, for this request; None: nothing is counted. `code` is that of our own
    answer, or of the error event of a stream that was broken off; it may be `or_code` where the
    system decides which.
    """

    name: str
    words: str
    outcome: RequestOutcome | None
    client: Client
    engine: Engine
    status: int = 200
    code: str = ""
    or_code: str = ""


@dataclass(frozen=True)
class Impossible:
    """No such cell, or nothing that can be promised in it: why."""

    reason: str


Rule = Promise | Impossible

NOT_READ = Promise(
    name="no request",
    words="There is no request yet, so nothing is counted. The connection ends.",
    outcome=None,
    client=Client.GONE,
    engine=Engine.NOTHING,
)
LEFT = Promise(
    name="abandoned",
    words="Counted `abandoned`. The seat or the place in the queue is free at once, and the "
    "engine's connection, if it had one, is closed, which makes the engine stop.",
    outcome=RequestOutcome.ABANDONED,
    client=Client.GONE,
    engine=Engine.ABORTED,
)
LEFT_UNSENT = Promise(
    name="abandoned",
    words=LEFT.words,
    outcome=RequestOutcome.ABANDONED,
    client=Client.GONE,
    engine=Engine.NOTHING,
)
DROPPED = Promise(
    name="dropped",
    words="The engine is read no faster than the client reads. Once the client has read nothing "
    "for `SLUICE_WRITE_TIMEOUT` it is dropped with a reset and counted `abandoned`; the engine's "
    "connection is closed. Once `SLUICE_TOTAL_TIMEOUT` is over, however it reads, the seat is free "
    "and the engine's connection closed, as after a broken answer.",
    outcome=RequestOutcome.ABANDONED,
    client=Client.BROKEN,
    engine=Engine.ABORTED,
)
SERVED = Promise(
    name="served",
    words="The client gets the engine's whole answer; counted `ok`. The engine sees the request "
    "once.",
    outcome=RequestOutcome.OK,
    client=Client.WHOLE,
    engine=Engine.WHOLE,
)
RESENT = Promise(
    name="sent again",
    words="The connection that rested in the pool died before a byte of an answer. The request is "
    "sent once more, on a fresh connection: the client gets the whole answer; counted `ok`.",
    outcome=RequestOutcome.OK,
    client=Client.WHOLE,
    engine=Engine.WHOLE,
)
IDLE_END = Promise(
    name="closed",
    words="No request is touched, and nothing is counted. The connection is closed on our side "
    "too, and the next request is served on another.",
    outcome=None,
    client=Client.RESTING,
    engine=Engine.NOTHING,
)
IDLE_KEPT = Promise(
    name="kept",
    words="No request is touched, and nothing is counted. The connections stay, and the next "
    "request is served.",
    outcome=None,
    client=Client.RESTING,
    engine=Engine.NOTHING,
)
SHED_DRAINING = Promise(
    name="503 `draining`",
    words="The client is told at once, with `Retry-After`; counted `shed`.",
    outcome=RequestOutcome.SHED,
    client=Client.REFUSED,
    engine=Engine.NOTHING,
    status=503,
    code="draining",
)
BROKEN_DRAINING = Promise(
    name="broken, `draining`",
    words="The answer is broken off, so that it is not complete on the wire: of an event stream "
    "with an error event before that. Counted `shed`. The engine's connection is closed.",
    outcome=RequestOutcome.SHED,
    client=Client.BROKEN,
    engine=Engine.ABORTED,
    code="draining",
)
DRAINED_UNANSWERED = Promise(
    name=SHED_DRAINING.name,
    words=SHED_DRAINING.words,
    outcome=RequestOutcome.SHED,
    client=Client.REFUSED,
    engine=Engine.ABORTED,
    status=503,
    code="draining",
)
OWN_FAULT = Promise(
    name="500",
    words="The client gets 500 `internal_error`; counted `upstream_error`, the only outcome that "
    "stands for a failure. The log has a traceback.",
    outcome=RequestOutcome.UPSTREAM_ERROR,
    client=Client.REFUSED,
    engine=Engine.NOTHING,
    status=500,
    code="internal_error",
)
OWN_FAULT_LATE = replace(OWN_FAULT, engine=Engine.UNCERTAIN)
OWN_BREAK = Promise(
    name="broken, `internal_error`",
    words="The answer is broken off, so that it is not complete on the wire: of an event stream "
    "with an error event before that. Counted `upstream_error`. The engine's connection is closed, "
    "and the engine is not blamed.",
    outcome=RequestOutcome.UPSTREAM_ERROR,
    client=Client.BROKEN,
    engine=Engine.UNCERTAIN,
    code="internal_error",
)
CUT_UNREAD = Promise(
    name="cut",
    words="There is no request yet, so nothing is counted. The client's connection is closed "
    "without an answer, which it may try again; the others do not notice.",
    outcome=None,
    client=Client.CLOSED,
    engine=Engine.NOTHING,
    status=0,
)


def failed(code: str, engine: Engine = Engine.FAILED, or_code: str = "") -> Promise:
    """The engine failed before a byte of its answer."""
    status = 504 if code == "upstream_timeout" else 502
    return Promise(
        name=f"{status} `{code}`" + (f" or `{or_code}`" if or_code else ""),
        words="The client gets this answer of ours, whole; counted `upstream_error`.",
        outcome=RequestOutcome.UPSTREAM_ERROR,
        client=Client.REFUSED,
        engine=engine,
        status=status,
        code=code,
        or_code=or_code,
    )


def broken(code: str, engine: Engine = Engine.FAILED) -> Promise:
    """It failed in the middle of its answer."""
    return Promise(
        name=f"broken, `{code}`",
        words="The client has the head of the answer and perhaps more. It is broken off, so that "
        "it is not complete on the wire: of an event stream with an error event before that, and "
        "without `[DONE]`. Counted `upstream_error`.",
        outcome=RequestOutcome.UPSTREAM_ERROR,
        client=Client.BROKEN,
        engine=engine,
        code=code,
    )
