"""What is known about the other gateways when a page is asked for."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types, between workers
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SharingView:
    """`gateways`: how many hold a lease, this one included. `age_s`: since the store was last
    heard, None before it ever was. `leases`: seats that are held here, by upstream. `trouble`: why
    the store is not up, where that is known."""

    is_store_up: bool = False
    gateways: int = 0
    age_s: float | None = None
    leases: Mapping[str, int] = field(default_factory=dict)
    trouble: str | None = None
