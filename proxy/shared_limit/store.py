"""What gateways and the store of their leases say to each other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

LEASE_S = 3.0
"""A lease that was not renewed for so long is overdue, and its owner uses it no more."""

GRACE_S = 3.0
"""So long nobody gets more than it reports after the store has lost what it knew: the time in which
every gateway that lives has renewed."""

MISSING_S = 15.0
"""So long at most it waits then for gateways that others still know: one may have been stopped."""

UNSEEN_S = 30.0
"""Where the store cannot tell whose connections are open, a lease is taken back after so long."""


class StoreAwayError(Exception):
    """The store gives no answer."""


class StoreRefusedError(Exception):
    """The store is there, and will not have us: others may be given what we hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What one gateway says of its lease on one engine. Widths, seats: sequences.

    `seq` rises with every renewal: one that arrives after a later one is void. `keep` seats it goes
    on using, whatever is answered; it would have `want`, those in flight included. `widest`: what
    the first of those who wait needs, and has waited for `waited_ms`. `limit`: how many seats it
    thinks there are. `known`: the gateways that it last heard of; `gone`: those that have no
    connection to the store any more, each with the `seq` of the overdue lease.
    """

    gateway: str
    seq: int
    keep: int
    want: int
    widest: int
    waited_ms: int
    limit: int
    known: tuple[str, ...] = ()
    gone: Mapping[str, int] = field(default_factory=dict)
    leaves: bool = False

    def as_json(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Overdue:
    """A lease whose owner has not been heard of for `age_ms`."""

    seq: int
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """`held` seats are the gateway's now; of them it should give back what is above `target` and
    idle. `limit`: the seats there are for all; `members`: who holds a lease, dead or alive, or is
    still waited for."""

    held: int
    target: int
    limit: int
    members: tuple[str, ...]
    overdue: Mapping[str, Overdue]
    in_grace: bool

    @classmethod
    def from_json(cls, text: str | bytes) -> Granted | None:
        """None: the renewal came too late to count."""
        said: dict[str, Any] = json.loads(text)
        if "held" not in said:
            return None
        return cls(
            held=said["held"],
            target=said["target"],
            limit=said["limit"],
            members=tuple(said["members"]),
            overdue={name: Overdue(*one) for name, one in said["overdue"].items()},
            in_grace=said["in_grace"],
        )


class LeaseStore(Protocol):
    """Where the gateways of one cluster keep who holds how many seats of which engine.

    The sum of what is held of an engine never comes to more than its limit, but where gateways
    report that they hold more, as after a loss of the store's memory.
    """

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        """By engine, all in one round trip. Raises StoreAwayError, StoreRefusedError."""

    async def connected(self) -> frozenset[str] | None:
        """The gateways whose connections are open; None where that cannot be told.

        The kernel closes the connection of a process that dies, and keeps that of one that stands
        still. Raises as renew() does.
        """

    async def aclose(self) -> None: ...
