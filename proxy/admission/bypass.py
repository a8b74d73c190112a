"""Who may pass a head that does not fit yet, and for how long.

A giant, be it many sequences or many tokens, never finds its room unless what comes free is kept
for it; and while it is kept, nobody else is served. So a giant at the head of the queue is passed
for a while, and then room is kept for it:

    w seats pass it while  p + w <= A  and  2 D <= d - t       A = k0^2 / n0
    any number do if       D0 > 5/4 (d - t0)  and  A >= 1      D0 = m k0 / n0
    else room is kept, until it fits or its time is over       D = m ln((n + w + 1/2) / (r + 1/2))

    t0  when it first stood at the head and did not fit, with a seat free    d   its deadline
    p   seats granted past it so far                                         t   now
    n   seats taken now; n0: at t0        k0  how many of those must come free for it
    m   mean time that a seat is held     r   how many may still be taken when it fits

D: how long n + w seats need to empty down to r if nobody takes one anew, each ending at the rate
1/m whatever its age (the sum of m / j for j from r + 1 to n + w). D0: the same with ends that come
evenly, which is the least that can be expected.

Keeping k seats free one by one as they come wastes about k D0 / 2 = m k^2 / 2n seat-seconds. With A
seats granted before, which are worth A m, the others lose at most half of what they were given;
and for a request that needs only few seats A is below 1, so that nobody passes it. A giant waits
for an engine-full of others at most, and its own emptying always fits twice into what is left of
its time. Who cannot be served in time anyway stops nobody; it is served if it happens to fit. While
no seat has ever been given back, nobody passes.

Source: backfilling, D. Lifka, The ANL/IBM SP Scheduling System (1995): those behind may run as long
as that does not delay the head. There lengths are told beforehand; here only their mean is known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.admission.account import Emptying

_SPARE = 2.0
_DOUBT = 1.25


class Bypass:
    """Past one head, from the moment at which it did not fit. Times in seconds on one clock."""

    __slots__ = ("_allowance", "_deadline", "_passed")

    def __init__(self, deadline: float, emptying: Emptying, mean_hold_s: float, now: float) -> None:
        self._deadline = deadline
        self._passed = 0
        taken, to_come = emptying.taken, emptying.taken - emptying.keep
        self._allowance = to_come * to_come / taken if to_come > 0 else 0.0
        if self._allowance >= 1 and mean_hold_s < math.inf:
            least_s = mean_hold_s * to_come / taken
            if least_s > _DOUBT * (deadline - now):
                self._allowance = math.inf

    def allows(self, width: int, emptying: Emptying, mean_hold_s: float, now: float) -> bool:
        """Whether a request for `width` seats may pass now."""
        if math.isinf(self._allowance):
            return True
        if self._passed + width > self._allowance or math.isinf(mean_hold_s):
            return False
        return _SPARE * mean_hold_s * _mean_holds_until_empty(emptying, width) <= (
            self._deadline - now
        )

    def passed(self, seats: int) -> None:
        """So many were granted past it."""
        self._passed += seats


def _mean_holds_until_empty(emptying: Emptying, width: int) -> float:
    """Below 0 where the head will fit all the same."""
    return math.log((emptying.taken + width + 0.5) / (emptying.keep + 0.5))
