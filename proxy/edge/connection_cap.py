"""How many connections a listener has, and from where; whether one more may come in.

Connections that say nothing cost little, and there is no end to how many one client can open. Two
bounds keep that from taking the descriptors that the engines, the other clients and the probes
need: one on all connections, one on those from one address.

A connection over a bound is answered so, if its request comes soon; so that this cannot be flooded
either, only so many are answered at a time, and the others are dropped as they come.
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
_FEWEST_ANSWERED: Final = 16
_MOST_ANSWERED: Final = 128


class Bound(StrEnum):
    """The bound that a connection was over; also the label of the metric that counts it."""

    PER_ADDRESS = "per_address"
    TOTAL = "total"


class Arrival(NamedTuple):
    """`over` is None for a connection that may stay. One over a bound is to be told so if
    `is_answered`, or else dropped. `client` is what is counted; empty where nothing is."""

    client: str
    over: Bound | None = None
    is_answered: bool = False


class ConnectionCap:
    """Of one listener: `max_connections` in all, `max_per_address` from one address; None: as many
    as come. A bound in all that is not always the same is asked for at each connection, and for the
    surplus. `refused` is called for each that was one too many."""

    def __init__(
        self,
        max_connections: int | Callable[[], int] | None = None,
        max_per_address: int | None = None,
        refused: Callable[[Bound], None] = lambda _: None,
    ) -> None:
        self._max_connections = max_connections
        self.max_per_address = max_per_address
        self._refused = refused
        self._open = self._answered = 0
        self._by_client: dict[str, int] = {}

    @property
    def max_connections(self) -> int | None:
        """As many as there may be now."""
        most = self._max_connections
        return most() if callable(most) else most

    @property
    def surplus(self) -> int:
        """How many there are more than there may be now: the bound has moved since they came."""
        most = self.max_connections
        return 0 if most is None else max(0, self._open - most)

    @property
    def max_answered(self) -> int:
        """How many connections over a bound there may be at a time."""
        return most_answered(self.max_connections)

    def admit(self, host: str | None) -> Arrival:
        """For each connection as it comes. `host` is None where there is no address, as on a
        socket in the file system. release() is to be called with what this gives."""
        client = ""
        most = self.max_connections
        over = None if most is None or self._open < most else Bound.TOTAL
        if self.max_per_address is not None and host is not None:
            client = counted_as(host)
            if over is None and self._by_client.get(client, 0) >= self.max_per_address:
                over = Bound.PER_ADDRESS
        if over is not None:
            return self._surplus(over)
        self._open += 1
        if client:
            self._by_client[client] = self._by_client.get(client, 0) + 1
        return Arrival(client)

    def release(self, arrival: Arrival) -> None:
        if arrival.over is not None:
            self._answered -= arrival.is_answered
            return
        self._open -= 1
        client = arrival.client
        if client:
            left = self._by_client[client] - 1
            if left:
                self._by_client[client] = left
            else:
                del self._by_client[client]

    def _surplus(self, over: Bound) -> Arrival:
        self._refused(over)
        is_answered = self._answered < self.max_answered
        self._answered += is_answered
        return Arrival("", over, is_answered)

    def __repr__(self) -> str:
        return f"<ConnectionCap {self._open} of {self.max_connections} open, {self._answered} over>"


def most_answered(max_connections: int | None) -> int:
    """How many connections beyond so many are answered at a time, rather than dropped."""
    eighth = (max_connections or _MOST_ANSWERED) // 8
    return max(_FEWEST_ANSWERED, min(_MOST_ANSWERED, eighth))


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
