"""What made-up workers tell of themselves."""

from __future__ import annotations

from typing import Any

from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
from proxy.edge.engine import EngineState
from proxy.telemetry.declarations import DURATION_BOUNDS_S
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.families import Family, Figure
from proxy.telemetry.instruments import Distribution
from proxy.telemetry.sharing_view import SharingView
from proxy.telemetry.totals import Totals
from proxy.vllm.binding_limit import BindingLimit
from proxy.workers.report import WorkerReport

URL = "http://engine:8000"
UP = EngineState(up=True, ready=True, reason="answers")
DOWN = EngineState(up=False, ready=False, reason="connection refused")


def counted(ok: float, in_flight: float = 0.0) -> tuple[Family, ...]:
    """A metrics page with a counter and a gauge."""
    return (
        Family(
            "sluice_requests",
            "counter",
            "Requests.",
            (Figure("sluice_requests_total", {"outcome": "ok"}, ok),),
        ),
        Family(
            "sluice_in_flight",
            "gauge",
            "Seats.",
            (Figure("sluice_in_flight", {"upstream": URL}, in_flight),),
        ),
    )


def admission(in_flight: int = 0, limit: int = 4, **given: Any) -> AdmissionSnapshot:  # noqa: ANN401 - any field
    seats = UpstreamSnapshot(URL, in_flight=in_flight, limit=limit, suspended=False)
    values = {"queue_depth": 0, "max_queue_depth": 5, "draining": False, **given}
    return AdmissionSnapshot((seats,), **values)


def totals(arrivals: int = 0, waits: tuple[float, ...] = (), **shed: int) -> Totals:
    seen = Distribution(DURATION_BOUNDS_S)
    for wait_s in waits:
        seen.observe(wait_s)
    return Totals(arrivals, 0, arrivals, shed, seen.snapshot())


def report(**given: Any) -> WorkerReport:  # noqa: ANN401 - any field
    values = {
        "page": counted(0),
        "admission": admission(),
        "totals": totals(),
        "engines": {URL: UP},
        "views": {URL: EngineView(up=True)},
        "binding_limit": BindingLimit("max_in_flight", "four seats"),
        "tenants": (),
        "refusals": (),
        "running": 0,
        "sharing": SharingView(is_store_up=True, gateways=2, age_s=0.1),
        **given,
    }
    return WorkerReport(**values)
