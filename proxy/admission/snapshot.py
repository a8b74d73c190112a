"""One frozen look at the admission state, for tests, metrics, status pages and repr."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class UpstreamSnapshot:
    """Seats of one upstream: `in_flight` taken out of `limit`; `suspended` admits nobody.

    `prefill_tokens` and `kv_tokens` are estimates of what is taken.
    """

    name: str
    in_flight: int
    limit: int
    suspended: bool
    prefill_tokens: int = 0
    kv_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TenantSnapshot:
    """One tenant that has requests in flight or waiting. `in_flight` counts seats, `waiting`
    requests; `weight` is its share beside the others."""

    name: str
    in_flight: int
    waiting: int
    weight: float


class Demand(NamedTuple):
    """What is needed of one upstream: seats `taken`, and seats for those `waiting` who may run as
    soon as there is room. The first of them asks for `widest` seats and has waited `waited_s`."""

    taken: int
    waiting: int
    widest: int
    waited_s: float


NO_DEMAND = Demand(0, 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class AdmissionSnapshot:
    """All counts at one moment."""

    upstreams: tuple[UpstreamSnapshot, ...]
    queue_depth: int
    max_queue_depth: int
    draining: bool

    @property
    def in_flight(self) -> int:
        return sum(upstream.in_flight for upstream in self.upstreams)

    @property
    def limit(self) -> int:
        return sum(upstream.limit for upstream in self.upstreams)
