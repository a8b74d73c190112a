"""Bounds what takes no seat: how many such requests are at the engines, and what their bodies hold.

Nobody waits here: one too many is refused at once. Bodies that open requests hold count as if they
were still being uploaded, so that all uploads and all open requests together hold no more than the
intake allows; and they may have half of that at most, so that requests for seats can be uploaded
however long an engine sits on the open ones.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.edge.intake import Intake
    from proxy.edge.routes import Route

KEPT_FOR_INQUIRIES: Final = 16
"""Places beyond the bound, for those who ask what is there."""


class OpenFullError(Exception):
    """One request without a seat too many: there are `most`, or their bodies hold `most` bytes if
    it `is_of_bytes`."""

    def __init__(self, most: int, *, is_of_bytes: bool = False) -> None:
        super().__init__(most)
        self.most = most
        self.is_of_bytes = is_of_bytes


class OpenPlaces:
    """`most` requests at once, of all engines together; inquiries may be some more. `intake` is
    where their bodies are counted."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.most = 0
        self.taken = 0
        self.held_bytes = 0

    def objection(self, route: Route) -> OpenFullError | None:
        """Before the body is read."""
        most = self.most + KEPT_FOR_INQUIRIES if route.is_inquiry else self.most
        return None if self.taken < most else OpenFullError(most)

    @contextmanager
    def take(self, route: Route, body_bytes: int) -> Iterator[None]:
        """One place, for as long as the request is under way. Raises OpenFullError."""
        objection = self.objection(route) or self._objection_to(body_bytes)
        if objection is not None:
            raise objection
        self._count(1, body_bytes)
        try:
            yield
        finally:
            self._count(-1, -body_bytes)

    def _objection_to(self, body_bytes: int) -> OpenFullError | None:
        intake = self._intake
        most = max(intake.max_buffered_bytes // 2, intake.max_body_bytes)
        if body_bytes and self.held_bytes + body_bytes > most:
            return OpenFullError(most, is_of_bytes=True)
        return None

    def _count(self, places: int, body_bytes: int) -> None:
        self.taken += places
        self.held_bytes += body_bytes
        self._intake.buffered_bytes += body_bytes

    def __repr__(self) -> str:
        return f"<OpenPlaces {self.taken} of {self.most} taken, {self.held_bytes} bytes>"
