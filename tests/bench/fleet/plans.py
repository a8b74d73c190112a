"""What is simulated for docs/scaling.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.fleet.load import day, steady
from tests.bench.fleet.simulation import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

SEATS = 32
LIGHT, HEAVY, PEAK = 0.8, 1.2, 1.3
DAY_S, COMPRESSED_S = 86_400.0, 1440.0

# Gateways and engines, and for how long: what a large fleet costs to simulate bounds it.
GRID = (
    *((1, 1, 300.0), (4, 1, 300.0), (10, 1, 300.0), (30, 1, 200.0), (100, 1, 120.0)),
    *((1, 10, 200.0), (4, 10, 200.0), (10, 10, 200.0), (30, 10, 120.0), (100, 10, 80.0)),
    *((4, 40, 120.0), (4, 100, 80.0), (10, 100, 80.0), (30, 100, 60.0), (100, 100, 50.0)),
)
CELLS, CELL_GATEWAYS, CELL_ENGINES = 25, 4, 40


@dataclass(frozen=True, slots=True)
class Job:
    """`group`: where in the page it stands."""

    group: str
    name: str
    plan: Plan


def jobs() -> Iterator[Job]:
    """The cheap ones first."""
    for gateways, engines, lasts_s in GRID:
        for load in (LIGHT, HEAVY):
            plan = _plan(gateways, engines, load, lasts_s)
            yield Job("grid", f"{gateways} x {engines} at {load:g}", plan)
    for gateways, engines in ((4, 10), (10, 10), (10, 100)):
        plan = _day(gateways, engines, COMPRESSED_S)
        yield Job("day", f"{gateways} x {engines}, a day in 24 minutes", plan)
    yield Job("day", "1 x 1, a day in 24 minutes", _day(1, 1, COMPRESSED_S))
    yield Job("day", "1 x 1, a whole day", _day(1, 1, DAY_S))
    for skew in (0.5, 1.0):
        yield Job("skew", f"10 x 10, skew {skew:g}", _plan(10, 10, HEAVY, 200.0, skew=skew))
    for seats in (8, 128):
        yield Job("seats", f"10 x 10 x {seats}", _plan(10, 10, HEAVY, 120.0, seats=seats))
    for cell in range(CELLS):
        plan = _plan(CELL_GATEWAYS, CELL_ENGINES, HEAVY, 60.0, seed=100 + cell)
        yield Job("cells", f"cell {cell + 1}", plan)
    # What it is asked and cannot do piles up before the store, here as there: so not for longer.
    yield Job("flat", "100 x 1,000 at 0.8", _plan(100, 1000, LIGHT, 12.0, warm_up_s=4.0))


def _plan(
    gateways: int,
    engines: int,
    load: float,
    lasts_s: float,
    *,
    skew: float = 0.0,
    seats: int = SEATS,
    seed: int = 1,
    warm_up_s: float = 20.0,
) -> Plan:
    return Plan(
        gateways=gateways,
        engines=engines,
        seats=seats,
        profile=steady(load),
        lasts_s=lasts_s,
        warm_up_s=warm_up_s,
        skew=skew,
        seed=seed,
    )


def _day(gateways: int, engines: int, lasts_s: float) -> Plan:
    return Plan(
        gateways=gateways,
        engines=engines,
        seats=SEATS,
        profile=day(PEAK, lasts_s),
        lasts_s=lasts_s,
    )
