"""Everything that /status shows, as one object; contract: /status.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.admission.snapshot import AdmissionSnapshot, TenantSnapshot, UpstreamSnapshot
    from proxy.edge.engine import EngineState
    from proxy.edge.live_changes import LiveValue
    from proxy.edge.status.history import History
    from proxy.telemetry.engine_view import EngineView
    from proxy.telemetry.sharing_view import SharingView
    from proxy.telemetry.totals import Totals
    from proxy.vllm.binding_limit import BindingLimit

_MOST_TENANTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """Reads, when asked, what the gateway is doing. `wall_clock` gives Unix time.

    `sharing` is there where the limit is shared, and None while there is nobody to ask.
    `binding_limit` is None without an engine; `tenants` are all that have requests in flight or
    waiting. `workers` are shown where the gateway is several processes. `shadow` and
    `queue_timeout_s` are as at the start, and `live` says what has become of them and of others.
    """

    admission: Callable[[], AdmissionSnapshot]
    totals: Callable[[], Totals]
    engine_states: Callable[[], Mapping[str, EngineState]]
    views: Callable[[], Mapping[str, EngineView]]
    binding_limit: Callable[[], BindingLimit | None]
    tenants: Callable[[], Sequence[TenantSnapshot]]
    last_refusals: Callable[[], Sequence[Mapping[str, Any]]]
    history: History
    shadow: bool
    queue_timeout_s: float
    wall_clock: Callable[[], float]
    workers: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    live: Callable[[], Sequence[LiveValue]] = tuple
    sharing: Callable[[], SharingView | None] | None = None

    def sample(self) -> None:
        """To be called once a second."""
        self.history.add(self.admission(), self.totals())

    def now(self) -> dict[str, Any]:
        """All but the history. Numbers are unrounded, times in seconds, shares from 0 to 1."""
        snapshot, totals, binding = self.admission(), self.totals(), self.binding_limit()
        live = self.live()
        settings = {one.name: one.now for one in live}
        return {
            "version": __version__,
            "at": self.wall_clock(),
            "draining": snapshot.draining,
            "shadow": settings.get("shadow", self.shadow),
            "changed": [
                {"setting": one.variable, "now": one.now, "at_start": one.at_start}
                for one in live
                if one.is_changed
            ],
            "admission": {
                "in_flight": snapshot.in_flight,
                "limit": snapshot.limit,
                "queue_depth": snapshot.queue_depth,
                "max_queue_depth": snapshot.max_queue_depth,
                "queue_timeout_s": settings.get("queue_timeout", self.queue_timeout_s),
            },
            "last_minute": self.history.last_minute(),
            "binding_limit": binding and {"which": binding.which, "why": binding.why},
            "engines": self._engines(snapshot),
            "tenants": self._tenants(),
            "totals": {
                "arrivals": totals.arrivals,
                "retries": totals.retries,
                "ok": totals.ok,
                "shed": {reason: n for reason, n in totals.shed_by_reason.items() if n},
            },
            "last_refusals": list(self.last_refusals()),
            **({} if self.sharing is None else {"store": _store(self.sharing())}),
            **({} if self.workers is None else {"workers": list(self.workers())}),
        }

    def bar(self) -> str:
        """Why nobody can be let in, however the engines are; nothing, if somebody can.

        A gateway that holds seats goes on without the store. One that never had any, or that the
        store refuses, has none to give out until it answers.
        """
        store = self.sharing() if self.sharing is not None else None
        if store is None or store.is_store_up or self._is_shadow() or self.admission().limit:
            return ""
        return (
            f"no seat may be given out until the store of the shared limit answers: {store.trouble}"
        )

    def _is_shadow(self) -> bool:
        return bool({one.name: one.now for one in self.live()}.get("shadow", self.shadow))

    def everything(self) -> dict[str, Any]:
        return {**self.now(), "history": self.history.series()}

    def _engines(self, snapshot: AdmissionSnapshot) -> list[dict[str, Any]]:
        states, views = self.engine_states(), self.views()
        return [
            _engine(one, states.get(one.name), views.get(one.name)) for one in snapshot.upstreams
        ]

    def _tenants(self) -> list[dict[str, Any]]:
        busiest = sorted(self.tenants(), key=lambda one: (-one.in_flight, -one.waiting, one.name))
        return [
            {
                "name": tenant.name or "(none)",
                "in_flight": tenant.in_flight,
                "waiting": tenant.waiting,
                "weight": tenant.weight,
            }
            for tenant in busiest[:_MOST_TENANTS]
        ]


def _store(view: SharingView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "up": view.is_store_up,
        "trouble": view.trouble,
        "gateways": view.gateways,
        "age_s": view.age_s,
    }


def _engine(
    seats: UpstreamSnapshot, state: EngineState | None, view: EngineView | None
) -> dict[str, Any]:
    return {
        "url": seats.name,
        "up": state.up if state else None,
        "ready": state.ready if state else False,
        "reason": state.reason if state else "removed",
        "suspended": seats.suspended,
        "in_flight": seats.in_flight,
        "limit": seats.limit,
        "open_requests": view.open_requests if view else None,
        "stalled": view.stalled if view else None,
        "running": view.running if view else None,
        "waiting": view.waiting if view else None,
        "kv_cache_usage": view.kv_cache_usage if view else None,
        "metrics_age_s": view.metrics_age_s if view else None,
    }
