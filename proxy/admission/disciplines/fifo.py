"""First come, first served."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from proxy.admission.ports import Queued

if TYPE_CHECKING:
    from proxy.admission.request import AdmissionRequest

W = TypeVar("W", bound=Queued)


class Fifo(Generic[W]):
    """Waiters in the order of their arrival. Each waiter is in it at most once."""

    # An OrderedDict is a linked list with an index: the head and any removal cost the same at
    # every depth. A plain dict searches its deleted entries for the head, a deque for the waiter.
    __slots__ = ("_waiters", "queued_seats")

    def __init__(self) -> None:
        self._waiters: OrderedDict[W, None] = OrderedDict()
        self.queued_seats = 0

    def add(self, waiter: W) -> None:
        self._waiters[waiter] = None
        self.queued_seats += waiter.width

    def remove(self, waiter: W) -> None:
        del self._waiters[waiter]
        self.queued_seats -= waiter.width

    def head(self) -> W | None:
        return next(iter(self._waiters), None)

    def second(self) -> W | None:
        waiters = iter(self._waiters)
        next(waiters, None)
        return next(waiters, None)

    def newest(self) -> W | None:
        """The one that came last."""
        return next(reversed(self._waiters), None)

    def __len__(self) -> int:
        return len(self._waiters)

    def all(self) -> list[W]:
        return list(self._waiters)

    def over_cap(self, request: AdmissionRequest) -> bool:
        del request  # no tenant has a cap here
        return False

    def may_run(self, request: AdmissionRequest) -> bool:
        del request  # all are alike
        return not self._waiters

    def took(self, request: AdmissionRequest, seats: int) -> None:
        """Nothing depends on who runs."""

    def gave_back(self, request: AdmissionRequest, seats: int) -> None:
        """Nothing depends on who runs."""

    def seats_ahead(self, request: AdmissionRequest) -> int:
        del request
        return self.queued_seats

    def yields_to(self, request: AdmissionRequest) -> W | None:
        del request
        return None
