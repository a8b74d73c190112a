"""How the connection asks an application about a request before it starts a task for it.

Through a task and the events of ASGI a refusal would cost more than half as much again (34 us for
22, Python 3.13, in one process, 2026-12), and a flood of refusals takes the core from those who
were let in.
So the application is asked in one synchronous step, as soon as the head of the request is there,
and an answer that it has by then is written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    # As Entrance.enter; starlette and uvicorn each have types of their own for ASGI.
    Enter = Callable[[Any, Any, Any], "WrittenAnswer | Any"]


class WrittenAnswer(NamedTuple):
    """An answer as it goes out. `head` is the status line and the fields, each with its line end,
    without the empty line; there is an exact Content-Length and no `connection: close`."""

    head: bytes
    body: bytes


class Entrance(Protocol):
    """What an application has that can be asked. On any other server it is a plain ASGI app."""

    def enter(self, scope: Scope, receive: Receive, send: Send) -> WrittenAnswer | ASGIApp:
        """The answer, or else what is to be run as an ASGI application for this very request."""


def enter_of(app: object) -> Enter | None:
    """How to ask this application; None if it is one that cannot be asked."""
    enter: Enter | None = getattr(app, Entrance.enter.__name__, None)
    return enter
