"""Who of several gateways may use how many seats of one engine.

    free     = L - sum of h_i                    h_i  seats that gateway i holds
    granted  = min(free, t_i - h_i), 0 or more   t_i  its target   L  the limit of all together

Nobody gets what another has not given back, so the sum of h_i never comes to more than L. Targets
are max-min fair shares of R = L - (what overdue gateways hold) by what each wants; if all have what
they want, the rest is split evenly, so that a burst finds seats without asking.

Seats are whole, so that some are odd; with more gateways than seats, all are. Those that are wanted
go to who was granted none for the longest time, in turn. In reserve they stay with who has them,
else they go to who was granted one last: so they lie where they were needed, and with many engines
each gateway has some. By their names the same few would have the odd seats of every engine.

A request that is wider than its gateway's fair share would never find its seats. So the gateway
whose first waiter needs more than that, and has waited longest, has w seats as its target, and the
others share R - w until it has been served. One at a time; not while w > R.

A gateway that is overdue keeps what it holds, for its requests may still run: it may have been
stopped, or cut off. `gone` says that its connection is closed as well: then it has died, and the
engine has dropped its requests.

When the store has lost what it knew (another `run`, or nothing there), everybody is taken by his
word: for GRACE_S, and as long as somebody is missing of whom others knew (at most MISSING_S),
nobody gets more than he says that he holds.

renew.lua does the same inside the store. Source of the shares: progressive filling, D. Bertsekas,
R. Gallager, Data Networks (1992), 6.5.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.shared_limit.store import GRACE_S, LEASE_S, MISSING_S, Granted, Overdue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.shared_limit.store import Renewal

LEASE_MS = round(LEASE_S * 1000)
GRACE_MS = round(GRACE_S * 1000)
MISSING_MS = round(MISSING_S * 1000)


@dataclass(slots=True)
class Member:
    """A gateway as last heard of, at `seen`. `since`: when its first waiter began to wait.
    `granted`: when the store last gave it a seat."""

    seq: int
    held: int
    want: int
    widest: int
    since: int
    limit: int
    seen: int
    granted: int = 0

    def is_overdue(self, now: int) -> bool:
        return now - self.seen > LEASE_MS


@dataclass(slots=True)
class State:
    """The leases on one engine since `began`. Times in ms. `missing`: not heard, others know it."""

    run: str
    began: int
    members: dict[str, Member] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def is_in_grace(self, now: int) -> bool:
        waits_ms = MISSING_MS if self.missing else GRACE_MS
        return now - self.began < waits_ms


def renew(state: State | None, run: str, asked: Renewal, now: int) -> tuple[State, Granted | None]:
    """The state afterwards, and what the gateway is told: None if this came too late to count."""
    if state is None or state.run != run:
        state = _begun_anew(state, run, now)
    if not state.is_in_grace(now):
        state.missing.clear()
    me, members = asked.gateway, state.members
    if me in members and asked.seq <= members[me].seq:
        return state, None
    if me not in members and state.is_in_grace(now):
        state.missing |= {known for known in asked.known if known not in members}
    state.missing.discard(me)
    for name, seq in asked.gone.items():
        if name in members and members[name].seq == seq and members[name].is_overdue(now):
            del members[name]
    if asked.leaves:
        members.pop(me, None)
        return state, Granted(held=0, target=0, limit=0, members=(), overdue={}, in_grace=False)
    before = members.get(me)
    members[me] = Member(
        seq=asked.seq,
        held=asked.keep,
        want=asked.want,
        widest=asked.widest,
        since=now - asked.waited_ms,
        limit=asked.limit,
        seen=now,
        granted=before.granted if before else 0,
    )
    return state, _grant(state, me, now)


def _begun_anew(lost: State | None, run: str, now: int) -> State:
    state = State(run, now)
    if lost is not None:
        state.missing |= {name for name, one in lost.members.items() if now - one.seen < MISSING_MS}
        if lost.is_in_grace(now):
            state.missing |= lost.missing
    return state


def _grant(state: State, name: str, now: int) -> Granted:
    members, me = state.members, state.members[name]
    limit = min(one.limit for one in members.values())
    in_grace = state.is_in_grace(now)
    if in_grace:
        target = me.held
    else:
        target = targets(members, limit, now)[name]
        free = limit - sum(one.held for one in members.values())
        if (more := min(free, target - me.held)) > 0:
            me.held += more
            me.granted = now
    return Granted(
        held=me.held,
        target=target,
        limit=limit,
        members=tuple(sorted({*members, *state.missing})),
        overdue={
            other: Overdue(one.seq, now - one.seen)
            for other, one in members.items()
            if one.is_overdue(now)
        },
        in_grace=in_grace,
    )


def targets(members: Mapping[str, Member], limit: int, now: int) -> dict[str, int]:
    """For each that is not overdue."""
    live = {name: one for name, one in members.items() if not one.is_overdue(now)}
    away = sum(one.held for name, one in members.items() if name not in live)
    room = max(0, limit - away)
    fair = shares(live, room)
    wide = [name for name, one in live.items() if fair[name] < one.widest <= room]
    if not wide:
        return fair
    first = min(wide, key=lambda name: (live[name].since, name))
    width = live.pop(first).widest
    return {**shares(live, room - width), first: width}


def shares(members: Mapping[str, Member], room: int) -> dict[str, int]:
    """Max-min fair, in whole seats; what nobody wants is split evenly."""
    given = _of_what_is_wanted(members, room)
    each, odd = divmod(room - sum(given.values()), max(1, len(members)))

    def by_reserve(name: str) -> tuple[bool, int, str]:
        one = members[name]
        return (one.held - one.want <= each, -one.granted, name)

    for place, name in enumerate(sorted(members, key=by_reserve)):
        given[name] += each + (place < odd)
    return given


def _of_what_is_wanted(members: Mapping[str, Member], room: int) -> dict[str, int]:
    given: dict[str, int] = {}
    left = room
    by_want = sorted(members, key=lambda name: (members[name].want, name))
    for index, name in enumerate(by_want):
        level, odd = divmod(left, len(by_want) - index)
        if members[name].want > level:
            in_turn = sorted(by_want[index:], key=lambda name: (members[name].granted, name))
            return given | {name: level + (place < odd) for place, name in enumerate(in_turn)}
        given[name] = members[name].want
        left -= given[name]
    return given
