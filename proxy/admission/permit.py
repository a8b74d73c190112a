"""The right to occupy seats in one engine. It ends exactly once."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.account import Claim
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
    word counts, later ones do nothing, so cleanup may always say ignore(). `first_byte()`: the
    engine has read the prompt, whose tokens others may have.
    """

    __slots__ = (
        "_give_back",
        "_prefilled",
        "claim",
        "ending",
        "granted_at",
        "request",
        "time_in_queue_s",
    )

    def __init__(
        self,
        request: AdmissionRequest,
        claim: Claim,
        granted_at: float,
        time_in_queue_s: float,
        give_back: Callable[[Permit, Ending], None],
        prefilled: Callable[[Permit], None],
    ) -> None:
        self.request = request
        self.claim = claim
        self.granted_at = granted_at
        self.time_in_queue_s = time_in_queue_s
        self.ending: Ending | None = None
        self._give_back = give_back
        self._prefilled = prefilled

    @property
    def upstream(self) -> str:
        return self.claim.upstream

    @property
    def seats(self) -> int:
        return self.claim.seats

    def first_byte(self) -> None:
        """May be said more than once, and after the end."""
        if self.claim.prefill_tokens and self.ending is None:
            self._prefilled(self)

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
