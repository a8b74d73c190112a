"""What can befall the gateway itself."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from proxy.admission import gate
from proxy.edge import intake
from proxy.edge.gateway import Gateway
from proxy.edge.response_cycle import ResponseCycle
from tests.faults.matrix import Point
from tests.faults.watched_loop import WatchedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STALL_S = 2.0


# The step that follows each point, where memory can be wanting.
_NEXT_STEP: dict[Point, tuple[object, str]] = {
    Point.HEAD: (ResponseCycle, "__init__"),
    Point.BODY: (intake._GrowingBody, "add"),
    Point.QUEUED: (gate, "Waiter"),
    Point.GRANTED: (Gateway, "_request"),
    Point.CONNECTING: (WatchedLoop, "create_connection"),
    Point.SENT: (Gateway, "_answer_headers"),
    Point.HEADERS: (ResponseCycle, "_send_body"),
    Point.BETWEEN: (ResponseCycle, "_send_body"),
    Point.LAST: (ResponseCycle, "_send_body"),
}


@contextmanager
def no_memory(point: Point) -> Iterator[None]:
    """The next time that it is taken, and only then, that step raises MemoryError."""
    owner, name = _NEXT_STEP[point]
    usual: Callable[..., Any] = getattr(owner, name)
    left = [MemoryError("none is left")]

    def wanting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it is
        if left:
            raise left.pop()
        return usual(*args, **kwargs)

    with patch.object(owner, name, wanting):
        yield
    assert not left, f"{name} was never called"


@contextmanager
def wall_clock_that_jumps() -> Iterator[Callable[[float], None]]:
    """Gives what makes it jump, by so many seconds. The monotonic clock cannot."""
    usual, offset = time.time, [0.0]
    with patch.object(time, "time", lambda: usual() + offset[0]):
        yield lambda by_s: offset.__setitem__(0, by_s)


def stall() -> None:
    """In the gateway's loop: nothing else happens there meanwhile."""
    time.sleep(STALL_S)
