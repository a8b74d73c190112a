"""Retry tickets: how many refused clients may be invited back, and whether a retry was invited.

    B <- B + r                        at each admission; r is the share of retries to admissions
    B <- B0 + (B - B0) exp(-dt/tau)   while B > B0: what calm hours saved is no store for a storm
    B <- B - 1                        for each ticket drawn; none is drawn while B < 1

Admissions are only counted, and added up when somebody asks for a ticket, or comes more than a
second after the last look: n of them, taken as spread evenly over the time x tau since then, are
worth n r (1 - exp(-x)) / x. Spread over more than a second, a burst after a quiet hour would count
as if it had come all through that hour.

B begins at B0, so over any time there are at most B0 + r x admissions tickets: the retries that we
invite never exceed that share of what we serve. Source: the retry budget of Finagle (its deposits
live for 10 s, too), turned from a client's own restraint into a server's invitation.

Drawn tickets are counted until they come back. A retry is taken for an invited one while any is
out, since requests carry no ticket that could be told from another.
"""

from __future__ import annotations

import math

DEFAULT_SHARE = 0.2
FIRST_TICKETS = 10.0
TIME_CONSTANT_S = 10.0

# The longest Retry-After is 55 s; a ticket that has not come back by then will not.
_OUTSTANDING_TIME_CONSTANT_S = 55.0
_LONGEST_SPREAD_S = 1.0


class RetryBudget:
    """`share` is 0 or more; with 0 there are no tickets at all. Times in seconds."""

    __slots__ = ("_admissions", "_at", "_balance", "_outstanding", "_outstanding_at", "_share")

    def __init__(self, share: float) -> None:
        if share < 0:
            raise ValueError(f"a share of retries is 0 or more, not {share:g}")
        self._share = share
        self._admissions = 0
        self._balance = FIRST_TICKETS if share else 0.0
        self._at = 0.0
        self._outstanding = 0.0
        self._outstanding_at = 0.0

    def another(self) -> RetryBudget:
        """A new one with the same share."""
        return RetryBudget(self._share)

    def admitted(self, now: float) -> None:
        """A request was admitted, and pays for a share of a ticket."""
        if now - self._at > _LONGEST_SPREAD_S:
            self._settle(now)
        self._admissions += 1

    def draw(self, now: float) -> bool:
        """Whether one more client may be invited back. It is counted as out from now on."""
        self._settle(now)
        if self._balance < 1:
            return False
        self._balance -= 1
        self._outstanding = self.outstanding(now) + 1
        self._outstanding_at = now
        return True

    def redeem(self, now: float) -> bool:
        """A retry came. Whether it was invited; if so, its ticket is out no more."""
        out, invited = self.outstanding(now), self.is_invited(now)
        self._outstanding_at = now
        self._outstanding = max(out - 1, 0.0) if invited else out
        return invited

    def is_invited(self, now: float) -> bool:
        """What redeem() would say, without taking a ticket for it."""
        # Half a ticket, since what is out fades: the last one of a few must still be good.
        return self.outstanding(now) >= 0.5

    def outstanding(self, now: float) -> float:
        """How many invited clients are still to come."""
        elapsed_s = now - self._outstanding_at
        if not self._outstanding or elapsed_s <= 0:
            return self._outstanding
        return self._outstanding * math.exp(-elapsed_s / _OUTSTANDING_TIME_CONSTANT_S)

    def _settle(self, now: float) -> None:
        excess = self._balance - FIRST_TICKETS
        if excess <= 0 and not self._admissions:
            self._at = now  # in a flood of refusals, nearly always
            return
        passed = max(now - self._at, 0.0) / TIME_CONSTANT_S
        self._at = now
        kept = math.exp(-passed)
        if excess > 0:
            self._balance = FIRST_TICKETS + excess * kept
        if self._admissions:
            earned = self._share * self._admissions
            self._balance += earned * (1 - kept) / passed if passed > 1e-9 else earned
            self._admissions = 0
