"""What the core asks of the world outside it, and of the policies within."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit
    from proxy.admission.request import AdmissionRequest

W = TypeVar("W")


class AdmissionObserver(Protocol):
    """Hears of every decision in the step that makes it. Must neither raise nor block.

    Each request is told of once: admitted, rejected, evicted or abandoned. A request whose task
    is cancelled after its grant stays admitted; its permit is released with IGNORE.
    """

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None: ...

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        """`request` is None when it was turned away before its body was read."""

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None: ...

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        """The waiter's task was cancelled: its client is gone."""

    def released(self, permit: Permit, ending: Ending) -> None: ...

    def would_shed(self, reason: Reason) -> None:
        """Shadow mode: outside it this request would have been refused."""


class Limit(Protocol):
    """How many seats one upstream may have taken. Read at every decision; 0 or more."""

    @property
    def seats(self) -> int: ...


class Discipline(Protocol[W]):
    """Which waiter of one queue is next. Every method costs the same at any depth."""

    def add(self, waiter: W) -> None:
        """The waiter is not in the queue yet."""

    def remove(self, waiter: W) -> None:
        """Takes it out, wherever it stands. Raises KeyError when it is not there."""

    def head(self) -> W | None:
        """The next to be served, still in the queue; None when nobody waits."""

    def __len__(self) -> int: ...
