"""Memory curves as nvidia-smi writes them, from a list of MiB."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1 << 20
GIB = 1 << 30
CARD_MIB = 24 * 1024
_BEGIN_S = 1_767_225_600.0

HEADER = "timestamp, memory.used [MiB], memory.total [MiB], utilization.gpu [%]"
START_UP = [4] * 5 + [500, 3000, 8000, 15000] + [15500] * 20 + [22000] * 5


def stamp(second: float) -> str:
    moment = datetime.fromtimestamp(_BEGIN_S + second, UTC)
    return f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def curve(used_mib: Iterable[float], period_s: float = 1.0, header: str = HEADER) -> list[str]:
    """One card of 24 GiB, a sample each period."""
    rows = (
        f"{stamp(i * period_s)}, {int(used)} MiB, {CARD_MIB} MiB, 87 %"
        for i, used in enumerate(used_mib)
    )
    return [header, *rows]


def wavy(level_mib: float, samples: int, by: float = 20.0) -> list[float]:
    """A level that trembles, the same way each time."""
    return [level_mib + by * ((i * 7919) % 13 - 6) / 6 for i in range(samples)]
