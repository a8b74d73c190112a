"""The right to occupy seats in one engine. It ends exactly once."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.request import AdmissionRequest


class Ending(enum.StrEnum):
    """What the holder says about the work when it gives its seats back."""

    COMPLETE = "complete"
    IGNORE = "ignore"
    DROP = "drop"


class Permit:
    """Seats held in `upstream`, from the grant until the first of complete, ignore and drop.

    `complete()`: the engine did the work; `drop()`: the engine failed under it or shed it;
    `ignore()`: it tells nothing about the engine (the client left, the body was bad). The first
    word counts, later ones do nothing, so cleanup may always say ignore().
    """

    __slots__ = ("_give_back", "ending", "request", "seats", "time_in_queue_s", "upstream")

    def __init__(
        self,
        request: AdmissionRequest,
        upstream: str,
        seats: int,
        time_in_queue_s: float,
        give_back: Callable[[Permit, Ending], None],
    ) -> None:
        self.request = request
        self.upstream = upstream
        self.seats = seats
        self.time_in_queue_s = time_in_queue_s
        self.ending: Ending | None = None
        self._give_back = give_back

    def complete(self) -> None:
        self._end(Ending.COMPLETE)

    def ignore(self) -> None:
        self._end(Ending.IGNORE)

    def drop(self) -> None:
        self._end(Ending.DROP)

    def _end(self, ending: Ending) -> None:
        if self.ending is None:
            self.ending = ending
            self._give_back(self, ending)

    def __repr__(self) -> str:
        state = self.ending or "held"
        return f"<Permit {self.seats} seats at {self.upstream}, {state}>"
