"""The plots of docs/scaling.md, from what was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.bench.fleet.plans import COMPRESSED_S, HEAVY, LIGHT
from tests.bench.fleet.svg import Chart, Series, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Record = dict[str, Any]

_GATEWAYS = (1.0, 4.0, 10.0, 30.0, 100.0)
_ENGINES = (1, 10, 100)
_OVER_GATEWAYS = (
    ("utilization", "Seats in use while anybody waits, at load 1.2", HEAVY, "utilization"),
    ("store", "How busy the store's core is, at load 0.8", LIGHT, "store_load"),
    ("waits", "Part of the time in which anybody waits, at load 0.8", LIGHT, "waiting_part"),
)
_HOURS = tuple(float(hour) for hour in range(0, 25, 3))


def plots(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Each one's name and text."""
    for name, title, load, figure in _OVER_GATEWAYS:
        yield name, _over_gateways(title, _grid(records, load, figure))
    days = [one for one in records if one["group"] == "day" and one["samples"]]
    if days:
        yield "day", _day(max(days, key=lambda one: one["engines"]))


def _grid(records: Sequence[Record], load: float, figure: str) -> list[Series]:
    lines = []
    for engines in _ENGINES:
        points = [
            (float(one["gateways"]), float(one[figure]))
            for one in records
            if one["group"] == "grid"
            and one["engines"] == engines
            and one["name"].endswith(f" {load:g}")
        ]
        if points:
            name = f"{engines} engine{'s' if engines > 1 else ''}"
            lines.append(Series(name, sorted(points)))
    return lines


def _over_gateways(title: str, series: Sequence[Series]) -> str:
    return drawn(
        Chart(
            title=title,
            x_title="gateways that share the engines, 32 seats each",
            x_marks=_GATEWAYS,
            x_log=True,
            y_top=1.0,
            percent=True,
            series=series,
        )
    )


def _day(record: Record) -> str:
    def of(name: str) -> list[tuple[float, float]]:
        hours = COMPRESSED_S / 24
        by_minute = record["samples"][::8]
        return [(one["at_s"] / hours, one[name]) for one in by_minute]

    series = [Series("load", of("load")), Series("seats taken", of("taken"))]
    return drawn(
        Chart(
            title=f"A day of {record['gateways']} gateways and {record['engines']} engines",
            x_title="hour",
            x_marks=_HOURS,
            y_top=1.5,
            percent=True,
            series=[*series, Series("idle elsewhere", of("parked"))],
        )
    )
