"""How a request for admission ends without a permit. Both errors carry the facts, not the words."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple


class Reason(enum.StrEnum):
    """Why a request was refused. A closed set: it labels metrics and is the `code` clients see."""

    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    DEADLINE_UNREACHABLE = "deadline_unreachable"
    TENANT_LIMIT = "tenant_limit"
    RETRY_BUDGET_EXHAUSTED = "retry_budget_exhausted"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    UPSTREAM_STALLED = "upstream_stalled"
    DRAINING = "draining"


# To those refused for these a retry is of no use, so no ticket is spent on them.
HOPELESS = frozenset(
    {Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED, Reason.RETRY_BUDGET_EXHAUSTED}
)


class Load(NamedTuple):
    """What is taken, and of how much.

    `in_flight` and `limit` are seats, sums over the `upstreams` that are not suspended, of those
    that share the request's queue; so are the tokens and their limits, None where there is none.
    """

    in_flight: int
    limit: int
    queue_depth: int
    max_queue_depth: int
    prefill_tokens: int = 0
    prefill_limit: int | None = None
    kv_tokens: int = 0
    kv_limit: int | None = None
    upstreams: int = 1


class RefusalFacts(NamedTuple):  # made faster than a frozen dataclass, 20,000 times a second
    """What was measured at the moment of the refusal; times in seconds.

    `expected_wait_s`: how long such a request would wait for its turn if it came now and had a
    place in the queue; math.inf while nothing has been served yet, so that nobody can tell.
    `may_wait_s`: how long it may still wait, at most.
    `may_retry`: the client is invited to come back.
    """

    reason: Reason
    seats: int
    load: Load
    time_in_queue_s: float
    expected_wait_s: float
    may_wait_s: float = math.inf
    may_retry: bool = False


class Refused(Exception):
    """A request was turned away. `facts` says why, with numbers."""

    # Without a dict, and without super().__init__, as __new__ has done its work: half the price.
    __slots__ = ("facts",)

    def __init__(self, facts: RefusalFacts) -> None:
        self.facts = facts

    @property
    def reason(self) -> Reason:
        return self.facts.reason


class Rejected(Refused):
    """Turned away on arrival; it never held a place in the queue."""

    __slots__ = ()


class Evicted(Refused):
    """Held a place in the queue and lost it. `timed_out`: because its own time had run out."""

    __slots__ = ("timed_out",)

    def __init__(self, facts: RefusalFacts, *, timed_out: bool = False) -> None:
        super().__init__(facts)
        self.timed_out = timed_out
