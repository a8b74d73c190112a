"""First come, first served."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

W = TypeVar("W")


class Fifo(Generic[W]):
    """Waiters in the order of their arrival. Each waiter is in it at most once."""

    # An OrderedDict is a linked list with an index: the head and any removal cost the same at
    # every depth. A plain dict searches its deleted entries for the head, a deque for the waiter.
    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: OrderedDict[W, None] = OrderedDict()

    def add(self, waiter: W) -> None:
        self._waiters[waiter] = None

    def remove(self, waiter: W) -> None:
        del self._waiters[waiter]

    def head(self) -> W | None:
        return next(iter(self._waiters), None)

    def __len__(self) -> int:
        return len(self._waiters)
