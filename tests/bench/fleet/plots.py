"""The plots of docs/scaling.md, from what was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.bench.fleet.plans import COMPRESSED_S, HEAVY, LIGHT
from tests.bench.fleet.svg import Chart, Series, drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Record = dict[str, Any]

_GATEWAYS = (1.0, 4.0, 10.0, 30.0, 100.0)
_ENGINES = (1, 10, 100)
_DAY_OF = "10 x 100, a day in 24 minutes"
_HOURS = tuple(float(hour) for hour in range(0, 25, 3))


def plots(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Each one's name and text."""
    utilization = _grid(records, HEAVY, lambda one: one["utilization"])
    yield (
        "utilization",
        _over_gateways(
            "Seats in use while anybody waits, at 1.2 times the load", utilization, 1.0, 0.8, True
        ),
    )
    yield (
        "store",
        _over_gateways(
            "The store's core, at 0.8 times the load",
            _grid(records, LIGHT, lambda one: one["store_load"]),
            1.0,
            0.0,
            True,
        ),
    )
    yield (
        "waits",
        _over_gateways(
            "Longest wait of 99 %, worst gateway, at 0.8 times the load (s)",
            _grid(records, LIGHT, lambda one: one["gateway_p99_s"][1]),
            5.0,
            0.0,
            False,
        ),
    )
    for record in records:
        if record["name"] == _DAY_OF:
            yield "day", _day(record)


def _grid(records: Sequence[Record], load: float, value: Callable[[Record], float]) -> list[Series]:
    lines = []
    for engines in _ENGINES:
        points = [
            (float(one["gateways"]), value(one))
            for one in records
            if one["group"] == "grid"
            and one["engines"] == engines
            and one["name"].endswith(f" {load:g}")
        ]
        if points:
            name = f"{engines} engine{'s' if engines > 1 else ''}"
            lines.append(Series(name, sorted(points)))
    return lines


def _over_gateways(
    title: str, series: Sequence[Series], top: float, bottom: float, percent: bool
) -> str:
    return drawn(
        Chart(
            title=title,
            x_title="gateways that share the engines, 32 seats each",
            x_marks=_GATEWAYS,
            x_log=True,
            y_top=top,
            y_bottom=bottom,
            percent=percent,
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
            title="A day of 10 gateways and 100 engines",
            x_title="hour",
            x_marks=_HOURS,
            y_top=1.5,
            percent=True,
            series=[*series, Series("idle elsewhere", of("parked"))],
        )
    )
