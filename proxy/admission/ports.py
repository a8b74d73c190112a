"""What the core asks of the world outside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit
    from proxy.admission.request import AdmissionRequest


class AdmissionObserver(Protocol):
    """Hears of every decision in the step that makes it. Must neither raise nor block."""

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
