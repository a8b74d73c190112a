"""One frozen look at the admission state, for tests, metrics, status pages and repr."""

from __future__ import annotations

from dataclasses import dataclass


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
