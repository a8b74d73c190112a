"""Which tenant of one priority is next, and whose waiter makes room.

Weighted max-min fairness of seats: of those who want more than they have, nobody holds fewer seats
per weight than another who could give some up. Next is the tenant i with the smallest

    K_i = T_i + c * n_i / w_i           T_i = integral of n_i / w_i  +  o_i

    n_i  seats that i holds now, in whatever priority        w_i  its weight
    T_i  its tag, in seat-seconds per weight, counted while anybody waits at all
    o_i  its head start in this priority, see below          c    ADVANCE_S, in seconds

ties going to who has stood longest at its rank. The second term is max-min fairness of the seats in
flight, which acts at once: whoever holds fewest gets the next. Alone it rounds: of ten tenants at
seven seats one that weighs ten is no better off than the others, and one whose requests take four
seats gets four or eight where six are due. The integral remembers what the rounding gave and took,
so that it evens out over time, for seats and not for requests, whatever their widths and durations.

Whoever begins to compete has nothing saved up: with V the tag of the tenant that was last granted,
o_i is raised until K_i is at least V. (Not T_i, or a heavy tenant that is served as fast as it asks
would lose each time what rounding owes it.) And T_i is never more than LONGEST_DEBT / w_i above V,
so that nobody pays for a distant past. T_i is brought up to date when i gets or returns seats: who
has held seats for long without a change ranks too high for at most one grant.

The tenant that is next stays next until it is served, so that a wide request finds its seats: if
each seat that comes free could change the choice, it would wait for ever, and idle seats with it.

Room is made by the tenant with the most queued seats per weight (longest queue drop).

Sources: Bertsekas and Gallager, Data Networks, 6.5 (max-min fairness). Goyal, Vin and Cheng,
Start-time Fair Queueing, SIGCOMM 1996 (tags, V), whose unit of work is here the seat-second, as in
Kubernetes' API Priority and Fairness. Suter et al., Buffer Management Schemes for Supporting TCP in
Gigabit Routers with Per-flow Queueing, 1999 (longest queue drop).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

# About as long as a long answer takes: shorter, and the seats in flight swing about their fair
# shares; longer, and rounding takes longer to even out.
ADVANCE_S = 30.0
# Ten minutes of one seat, or one minute of ten: more than a fair order ever lets anyone be ahead.
LONGEST_DEBT = 600.0

# A heap is swept when more of it is out of date than this and than what is in use.
_LITTER = 64

Q = TypeVar("Q")


class Tenant(Generic[Q]):
    """One tenant over all priorities. `used` is the integral of n / w.

    `waiting` and `contenders` (one a priority, None where it never waited) are its owner's.
    """

    __slots__ = ("_settled_at", "contenders", "in_flight", "used", "waiting", "weight")

    def __init__(self, weight: float, priorities: int) -> None:
        self.weight = weight
        self.in_flight = 0
        self.used = 0.0
        self._settled_at = 0.0
        self.waiting = 0
        self.contenders: list[Contender[Q] | None] = [None] * priorities

    def settle(self, contested_s: float) -> None:
        """Counts what was held up to now, a moment on a clock that runs while anybody waits."""
        if self.in_flight:
            self.used += self.in_flight * (contested_s - self._settled_at) / self.weight
        self._settled_at = contested_s


class Contender(Generic[Q]):
    """One tenant in one priority. `queue` is its owner's; nothing here looks into it.

    The rest belongs to the MaxMin that ranks it: its head start o, the seats for which it queues,
    the numbers of its valid entries among the turns and the longest queues (0 for none), and
    whether it is noted as grown.
    """

    __slots__ = ("grown", "head_start", "queue", "queued_seats", "room", "tenant", "turn")

    def __init__(self, tenant: Tenant[Q], queue: Q) -> None:
        self.tenant = tenant
        self.queue = queue
        self.queued_seats = 0
        self.head_start = 0.0
        self.turn = 0
        self.room = 0
        self.grown = False


class MaxMin(Generic[Q]):
    """Ranks contenders. Every call is O(log contenders), sweeping the heaps included on average.

    `queueing` of them have anybody waiting. `competing` of them may be next; they weigh
    `competing_weight` and queue for `competing_seats`. `chosen` is the one whose turn it is, as
    soon as somebody has asked.
    """

    __slots__ = (
        *("chosen", "competing", "competing_seats", "competing_weight", "queueing"),
        *("_entries", "_floor", "_grown", "_longest", "_turns", "_unranked"),
    )

    def __init__(self) -> None:
        self.chosen: Contender[Q] | None = None
        self.competing = 0
        self.competing_seats = 0
        self.competing_weight = 0.0
        self._entries = 0
        self._floor = 0.0
        self._grown: list[Contender[Q]] = []
        self.queueing = 0
        self._turns: list[tuple[float, int, Contender[Q]]] = []
        self._unranked: Contender[Q] | None = None
        self._longest: list[tuple[float, int, Contender[Q]]] = []

    # Whose turn it is

    def rank(self, contender: Contender[Q]) -> None:
        """It competes from now on, or what its tenant holds has changed. The tenant is settled."""
        if contender.turn:
            if self.competing == 1:  # which is how it is without tenants: any rank is the first
                self._unranked = contender
                return
        else:
            alone, self._unranked = self._unranked, None
            if alone is not None and alone.turn:
                self._enter(alone)
            self._forgive(contender)
            self.competing += 1
            self.competing_weight += contender.tenant.weight
            self.competing_seats += contender.queued_seats
        self._enter(contender)

    def _enter(self, contender: Contender[Q]) -> None:
        """Among the turns, at its present rank."""
        tenant = contender.tenant
        weight = tenant.weight
        tag = tenant.used + contender.head_start
        highest = self._floor + LONGEST_DEBT / weight
        if tag > highest:
            contender.head_start += highest - tag
            tag = highest
        self._entries = contender.turn = entry = self._entries + 1
        heappush(self._turns, (tag + ADVANCE_S * tenant.in_flight / weight, entry, contender))
        if len(self._turns) > 2 * self.competing + _LITTER:
            self._turns = [one for one in self._turns if one[1] == one[2].turn]
            heapify(self._turns)

    def withdraw(self, contender: Contender[Q]) -> None:
        """It has nobody waiting who may run. Does nothing if it does not compete."""
        if contender.turn:
            contender.turn = 0
            self.competing -= 1
            self.competing_seats -= contender.queued_seats
            self.competing_weight -= contender.tenant.weight
            if not self.competing:
                self.competing_weight = 0.0  # no rounding is left over
            self.choose_again(contender)

    def next(self) -> Contender[Q] | None:
        """The same one until it withdraws or its turn is over."""
        if self.chosen is None and self.competing:
            turns = self._turns
            while turns[0][1] != turns[0][2].turn:
                heappop(turns)
            self.chosen = turns[0][2]
        return self.chosen

    def runner_up(self) -> Contender[Q] | None:
        """Who would be next if the one whose turn it is did not compete."""
        chosen = self.next()
        if self.competing < 2:
            return None
        turns = self._turns
        passed_over = None
        while turns[0][1] != turns[0][2].turn or turns[0][2] is chosen:
            entry = heappop(turns)
            if entry[1] == entry[2].turn:
                passed_over = entry
        found = turns[0][2]
        if passed_over is not None:
            heappush(turns, passed_over)
        return found

    def choose_again(self, contender: Contender[Q]) -> None:
        """If it was this one's turn, that is over."""
        if self.chosen is contender:
            self.chosen = None

    def granted(self, contender: Contender[Q]) -> None:
        """Those who begin to compete from now on are level with this one."""
        if not contender.turn:
            self._forgive(contender)
        self._floor = contender.tenant.used + contender.head_start

    def _forgive(self, contender: Contender[Q]) -> None:
        """Whoever did not compete has no claim to what others got meanwhile."""
        tenant = contender.tenant
        lowest = self._floor - ADVANCE_S * tenant.in_flight / tenant.weight
        behind = lowest - tenant.used - contender.head_start
        if behind > 0:
            contender.head_start += behind

    # Who makes room

    def joined(self, contender: Contender[Q], seats: int) -> None:
        """It queues for so many seats more."""
        if not contender.queued_seats:
            self.queueing += 1
        if contender.turn:
            self.competing_seats += seats
        contender.queued_seats += seats
        if not contender.grown:
            contender.grown = True
            self._grown.append(contender)
            if len(self._grown) > 2 * self.queueing + _LITTER:
                self._enter_grown()  # most of them have left again

    def left(self, contender: Contender[Q], seats: int) -> None:
        """It queues for so many seats fewer."""
        if contender.turn:
            self.competing_seats -= seats
        contender.queued_seats -= seats
        if not contender.queued_seats:
            contender.room = 0
            self.queueing -= 1

    def longest(self, but_for: Contender[Q] | None = None) -> Contender[Q] | None:
        """The one with the most queued seats per weight, `but_for` one that is passed over."""
        self._enter_grown()
        passed_over = None
        while self._longest:
            entry = self._longest[0]
            contender = entry[2]
            per_weight = contender.queued_seats / contender.tenant.weight
            if entry[1] != contender.room:
                heappop(self._longest)
            elif per_weight < -entry[0]:  # some have left since
                heapreplace(self._longest, (-per_weight, entry[1], contender))
            elif contender is but_for:
                passed_over = heappop(self._longest)
            else:
                break
        found = self._longest[0][2] if self._longest else None
        if passed_over is not None:
            heappush(self._longest, passed_over)
        return found

    def _enter_grown(self) -> None:
        """Nobody asks while there are places, so growth is only noted until somebody does."""
        for contender in self._grown:
            contender.grown = False
            if contender.queued_seats:
                self._entries = contender.room = entry = self._entries + 1
                per_weight = contender.queued_seats / contender.tenant.weight
                heappush(self._longest, (-per_weight, entry, contender))
        self._grown.clear()
        if len(self._longest) > 2 * self.queueing + _LITTER:
            self._longest = [one for one in self._longest if one[1] == one[2].room]
            heapify(self._longest)
