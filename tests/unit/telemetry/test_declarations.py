"""That every gauge has a rule is held by its type; that none is left out of the table, here."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector

from proxy.telemetry import declarations
from proxy.telemetry.declarations import TOGETHER, Declaration, Gauge, Together


def declared(kind: type[Declaration | Gauge]) -> list[str]:
    return [one.name for one in vars(declarations).values() if isinstance(one, kind)]


def test_every_gauge_says_what_several_of_it_are_together() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    of_the_process = [one.name for one in registry.collect() if one.type == "gauge"]
    assert of_the_process
    assert set(TOGETHER) == {*declared(Gauge), *of_the_process}


def test_no_name_is_declared_twice() -> None:
    names = declared(Gauge) + declared(Declaration)
    assert len(names) == len(set(names))


def test_seats_are_added_up_and_what_is_watched_by_all_is_not() -> None:
    assert TOGETHER["sluice_in_flight"] is Together.SUM
    assert TOGETHER["sluice_concurrency_limit"] is Together.SUM
    assert TOGETHER["sluice_leased_seats"] is Together.SUM
    assert TOGETHER["sluice_upstream_up"] is Together.LEAST
    assert TOGETHER["sluice_gateways"] is Together.MOST
    assert TOGETHER["sluice_engine_running"] is Together.MOST
