"""What a gateway has done since its start, in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - whoever sends it reads the types
from dataclasses import dataclass

from proxy.telemetry.instruments import DistributionSnapshot  # noqa: TC001 - as above


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the start. `arrivals` includes `retries`; `waits` are those of the admitted."""

    arrivals: int
    retries: int
    ok: int
    shed_by_reason: Mapping[str, int]
    waits: DistributionSnapshot

    @property
    def shed(self) -> int:
        return sum(self.shed_by_reason.values())
