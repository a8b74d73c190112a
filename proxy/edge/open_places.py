"""Bounds what takes no seat: how many such requests are at an engine, and what their bodies hold.

Nobody waits here: one too many is refused at once. One engine that sits on those it has leaves the
others' places to the others. Bodies that open requests hold count as if they
were still being uploaded, so that all uploads and all open requests together hold no more than the
intake allows; and they may have half of that at most, or one body, so that requests for seats can
be uploaded however long an engine sits on the open ones.

Who is refused is invited back out of a budget of their own: those who wait for seats have theirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.admission.retry_budget import RetryBudget
    from proxy.edge.engine import OpenRequests
    from proxy.edge.intake import Intake
    from proxy.edge.routes import Route

KEPT_FOR_INQUIRIES: Final = 16
"""Places beyond the bound, for those who ask what is there."""


class OpenFullError(Exception):
    """One request without a seat too many: there are `most`, or their bodies hold `most` bytes if
    it `is_of_bytes`. Its client is invited back if it `invites`."""

    def __init__(self, most: int, *, is_of_bytes: bool = False, invites: bool) -> None:
        super().__init__(most)
        self.most = most
        self.is_of_bytes = is_of_bytes
        self.invites = invites


class OpenPlaces:
    """`each` requests at once at an engine, `most` on their way to any; inquiries may be some more.
    `intake` is where their bodies are counted; `retry_budget` earns by those that come in, at
    `clock`."""

    def __init__(
        self, intake: Intake, retry_budget: RetryBudget, clock: Callable[[], float]
    ) -> None:
        self._intake = intake
        self._retry_budget = retry_budget
        self._clock = clock
        self.each = self.most = 0
        self._is_for_nobody = False
        self.taken = 0
        self.held_bytes = 0

    def resize(self, each: int, engines: int, leaving: int = 0) -> None:
        """From now on; who is under way goes on. Requests may be under way to engines that are
        `leaving`, too, beside the `engines` that there are."""
        self.each, self.most = each, each * max(engines + leaving, 1)
        self._is_for_nobody = engines == 0

    def objection(self, route: Route) -> OpenFullError | None:
        """Before the body is read. It is to be raised: it may have taken a retry ticket. None where
        there is no engine, which says more than that there is no room."""
        if self._is_for_nobody:
            return None
        return self._objection_to_one_more(route, self.taken, self.most)

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

    @contextmanager
    def at(self, open_requests: OpenRequests, route: Route) -> Iterator[None]:
        """One of the places at an engine, for who has taken one. Raises OpenFullError."""
        objection = self._objection_to_one_more(route, open_requests.count, self.each)
        if objection is not None:
            raise objection
        self._retry_budget.admitted(self._clock())
        with open_requests.one_more():
            yield

    def _objection_to_one_more(self, route: Route, taken: int, most: int) -> OpenFullError | None:
        if route.is_inquiry:
            most += KEPT_FOR_INQUIRIES
        return None if taken < most else OpenFullError(most, invites=self._invites())

    def _objection_to(self, body_bytes: int) -> OpenFullError | None:
        intake = self._intake
        most = max(intake.max_buffered_bytes // 2, intake.max_body_bytes)
        if body_bytes and self.held_bytes + body_bytes > most:
            return OpenFullError(most, is_of_bytes=True, invites=self._invites())
        return None

    def _invites(self) -> bool:
        return self._retry_budget.draw(self._clock())

    def _count(self, places: int, body_bytes: int) -> None:
        self.taken += places
        self.held_bytes += body_bytes
        self._intake.buffered_bytes += body_bytes

    def __repr__(self) -> str:
        return f"<OpenPlaces {self.taken} of {self.most} taken, {self.held_bytes} bytes>"
