"""Gateways that share several engines under traffic, each with its real queue, placement, leases
and rules. Every grant is checked: one seat too many in an engine ends the simulation."""

from __future__ import annotations

import random

import pytest

from tests.bench.fleet.load import Pattern, parts, steady
from tests.bench.fleet.simulation import Outcome, Plan, simulate
from tests.bench.fleet.store_model import Costs

_DICE = random.Random(7)
PATTERN = Pattern(
    tuple(_DICE.expovariate(1.0) for _ in range(997)),
    tuple(_DICE.uniform(1.0, 5.0) for _ in range(1009)),
)


def fleet(
    gateways: int,
    engines: int,
    load: float,
    *,
    seats: int = 8,
    skew: float = 0.0,
    store: Costs | None = None,
) -> Outcome:
    plan = Plan(
        gateways=gateways,
        engines=engines,
        seats=seats,
        profile=steady(load),
        lasts_s=60.0,
        warm_up_s=10.0,
        skew=skew,
        store=store,
    )
    return simulate(plan, PATTERN)


def test_more_comes_in_than_fits_and_no_seat_stays_empty() -> None:
    got = fleet(4, 3, 1.4)
    assert got.most_in_one == 8
    assert got.waiting_part > 0.9
    assert got.utilization > 0.97
    assert got.parked < 0.02


def test_gateways_at_which_alike_comes_in_admit_alike() -> None:
    assert fleet(4, 3, 1.4).fairness > 0.98


def test_a_gateway_at_which_little_comes_in_is_not_crowded_out() -> None:
    got = fleet(4, 3, 1.6, skew=2.0)
    least = min(parts(4, 2.0))
    assert least < 1 / 16  # of its even share, a quarter of all seats, it needs a part
    assert got.gateway_admitted[1] > 0.97
    assert got.utilization > 0.95


def test_with_spare_seats_every_gateway_has_some_at_hand() -> None:
    got = fleet(4, 6, 0.7, seats=16)
    assert got.admitted_share == pytest.approx(1.0, abs=0.001)
    assert got.gateway_p50_s[1] == 0.0


def test_with_more_gateways_than_seats_of_an_engine_each_has_its_turn() -> None:
    got = fleet(12, 1, 1.4)
    assert got.gateway_admitted[0] > 0.3
    assert got.utilization > 0.9


def test_a_store_at_its_end_costs_seats_and_exceeds_no_limit() -> None:
    got = fleet(6, 2, 1.4, store=Costs(0.03, 0.0))
    assert got.store_load > 0.9
    assert got.utilization > 0.6
