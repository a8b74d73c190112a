"""What is known about the other gateways when a page is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SharingView:
    """`gateways`: how many hold a lease, this one included. `age_s`: since the store was last
    heard, None before it ever was. `leases`: seats that are held here, by upstream."""

    is_store_up: bool = False
    gateways: int = 0
    age_s: float | None = None
    leases: Mapping[str, int] = field(default_factory=dict)
