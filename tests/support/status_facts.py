"""The facts behind /status, of a gateway that is made up."""

from __future__ import annotations

from typing import Any

from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
from proxy.edge.engine import EngineState
from proxy.edge.status.facts import StatusFacts
from proxy.edge.status.history import History
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.instruments import Distribution
from proxy.telemetry.totals import Totals
from proxy.vllm.binding_limit import BindingLimit

URL = "http://engine:8000"
STATE = EngineState(up=True, ready=True, reason="answers")
VIEW = EngineView(up=True, running=3.0, kv_cache_usage=0.5, open_requests=2)
SEATS = UpstreamSnapshot(URL, in_flight=3, limit=7, suspended=False)


def status_facts(**given: object) -> StatusFacts:
    values: dict[str, Any] = {
        "admission": lambda: AdmissionSnapshot((SEATS,), 2, 9, draining=False),
        "totals": lambda: Totals(
            5, 1, 3, {"queue_full": 2, "draining": 0}, Distribution((1.0,)).snapshot()
        ),
        "engine_states": lambda: {URL: STATE},
        "views": lambda: {URL: VIEW},
        "binding_limit": lambda: BindingLimit("max_in_flight", "seven seats"),
        "tenants": list,
        "last_refusals": list,
        "history": History(),
        "shadow": False,
        "queue_timeout_s": 5.0,
        "wall_clock": lambda: 1000.0,
        **given,
    }
    return StatusFacts(**values)
