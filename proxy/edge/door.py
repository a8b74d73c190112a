"""How many connections a listener has, and from where; whether one more may come in.

Connections that say nothing cost little, and there is no end to how many one client can open. Two
bounds keep that from taking the descriptors that the engines, the other clients and the probes
need: one on all connections, one on those from one address.

Whoever comes in over a bound is told so, if he asks soon; so that this cannot be flooded either,
only so many are told at a time, and the others are dropped as they come.
"""

from __future__ import annotations

import socket
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# Of an IPv6 address: a network of this size is what one client is given.
_NETWORK_BYTES: Final = 8
# How an IPv4 address begins where IPv6 is listened on.
_MAPPED: Final = bytes(10) + b"\xff\xff"
_FEWEST_TOLD: Final = 16
_MOST_TOLD: Final = 128


class Bound(StrEnum):
    """The bound that a connection was over; also the label of the metric that counts it."""

    PER_ADDRESS = "per_address"
    TOTAL = "total"


class Arrival(NamedTuple):
    """`over` is None for a connection that may stay. One over a bound is to be told so if
    `is_told`, or else dropped. `who` is what is counted."""

    who: str
    over: Bound | None = None
    is_told: bool = False


class Door:
    """Of one listener. `most` connections in all, `most_per_address` from one address; None: as
    many as come. `refused` is called for each that was one too many."""

    def __init__(
        self,
        most: int | None = None,
        most_per_address: int | None = None,
        refused: Callable[[Bound], None] = lambda _: None,
    ) -> None:
        self.most = most
        self.most_per_address = most_per_address
        self._refused = refused
        self._here = self._told = 0
        self._by_who: dict[str, int] = {}

    @property
    def may_be_told(self) -> int:
        """How many connections over a bound there may be at a time."""
        return max(_FEWEST_TOLD, min(_MOST_TOLD, (self.most or _MOST_TOLD) // 8))

    def enter(self, host: str | None) -> Arrival:
        """For each connection as it comes. `host` is None where there is no address, as on a
        socket in the file system. leave() is to be called with what this gives."""
        who = ""
        over = None if self.most is None or self._here < self.most else Bound.TOTAL
        if self.most_per_address is not None and host is not None:
            who = counted_as(host)
            if over is None and self._by_who.get(who, 0) >= self.most_per_address:
                over = Bound.PER_ADDRESS
        if over is not None:
            return self._surplus(over)
        self._here += 1
        if who:
            self._by_who[who] = self._by_who.get(who, 0) + 1
        return Arrival(who)

    def leave(self, arrival: Arrival) -> None:
        if arrival.over is not None:
            self._told -= arrival.is_told
            return
        self._here -= 1
        who = arrival.who
        if who:
            left = self._by_who[who] - 1
            if left:
                self._by_who[who] = left
            else:
                del self._by_who[who]

    def _surplus(self, over: Bound) -> Arrival:
        self._refused(over)
        is_told = self._told < self.may_be_told
        self._told += is_told
        return Arrival("", over, is_told)

    def __repr__(self) -> str:
        return f"<Door {self._here} of {self.most} here, {self._told} over>"


def counted_as(host: str) -> str:
    """One client, as far as an address tells."""
    if ":" not in host:
        return host
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return host
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(_MAPPED) :])
    return packed[:_NETWORK_BYTES].hex()
