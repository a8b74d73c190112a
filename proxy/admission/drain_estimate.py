"""How long until so many seats have been given back?

Each taken seat is given back after a while, at a rate r per second and seat. Over the recent past

    r = N / (D + O)     O = max(0, (S - D) - T m)     m = D / N

N: seats given back, D: the seat-seconds that they had been taken for, S: seat-seconds spent taken,
by those that are still taken too, T: seats taken now, m: the mean hold. All sums forget
exponentially, with the time constant tau, while any seat is taken. With all L seats taken, L r
seats come free each second, and k of them after k / (L r).

Counting seat-seconds rather than seconds makes light traffic teach as well as heavy traffic does:
a half-empty engine gives back few seats because few are taken, not because it is slow. O is what
the seats taken now are overdue by: nothing as long as they are held no longer than others were,
else the first of seven that began together would make the engine look seven times as slow as it
is. When the engine stalls, O grows and N fades, so the expected wait grows until the seats come
back.
"""

from __future__ import annotations

import math

TIME_CONSTANT_S = 30.0

# A stalled engine's rate tends to zero; nobody is helped by a wait of years.
_LONGEST_S = 3600.0


class DrainEstimate:
    """Learns from every change of the seats taken. All times in seconds on one clock."""

    __slots__ = (
        "_at",
        "_given_back",
        "_held_seat_seconds",
        "_knows",
        "_seat_seconds",
        "_taken",
        "_time_constant_s",
    )

    def __init__(self, time_constant_s: float = TIME_CONSTANT_S) -> None:
        self._time_constant_s = time_constant_s
        self._at = 0.0
        self._taken = 0
        self._given_back = 0.0
        self._held_seat_seconds = 0.0
        self._seat_seconds = 0.0
        self._knows = False

    def took(self, seats: int, now: float) -> None:
        self._advance(now)
        self._taken += seats

    def gave_back(self, seats: int, held_s: float, now: float) -> None:
        """`held_s`: how long they were taken."""
        self._advance(now)
        self._taken -= seats
        self._given_back += seats
        self._held_seat_seconds += seats * held_s
        self._knows = self._seat_seconds > 0

    def expected_wait_s(self, seats: float, limit: int, now: float) -> float:
        """Seconds until `seats` more come free while all `limit` are taken; at most an hour.

        math.inf when nobody can tell: no seat was ever given back, or there are none.
        """
        if seats <= 0:
            return 0.0
        if not self._knows or limit <= 0:
            return math.inf
        self._advance(now)
        spent = self._held_seat_seconds + self._overdue_seat_seconds()
        hour_rate = limit * self._given_back * _LONGEST_S
        if seats * spent >= hour_rate:
            return _LONGEST_S
        return seats * spent / (limit * self._given_back)

    def _overdue_seat_seconds(self) -> float:
        if not self._given_back:
            return self._seat_seconds
        mean_hold_s = self._held_seat_seconds / self._given_back
        unfinished = self._seat_seconds - self._held_seat_seconds
        return max(unfinished - self._taken * mean_hold_s, 0.0)

    def _advance(self, now: float) -> None:
        elapsed_s = now - self._at
        self._at = now
        if self._taken > 0 and elapsed_s > 0:
            kept = math.exp(-elapsed_s / self._time_constant_s)
            self._given_back *= kept
            self._held_seat_seconds *= kept
            self._seat_seconds *= kept
            self._seat_seconds += self._taken * self._time_constant_s * (1 - kept)
