"""The admin listener of a gateway of several workers: the parent serves it, for all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from proxy.edge.health import health_router
from proxy.edge.live_changes import live_changes_router
from proxy.edge.local_apps import admin_app
from proxy.edge.status.facts import StatusFacts
from proxy.edge.status.history import History
from proxy.edge.status.router import status_router
from proxy.telemetry.families import as_metrics
from proxy.telemetry.page_format import written
from proxy.workers import together
from proxy.workers.changes import ChangesOfAll

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from prometheus_client import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from proxy.env_values.key_digest import KeyDigest
    from proxy.live_settings import LiveSettings
    from proxy.settings import Settings
    from proxy.workers.roster import Roster

# What must be true at this moment. The page for people is a second old at most.
_ASKED_FOR = frozenset({"/metrics", "/readyz", "/status.json", "/admin/drain"})
_CHANGES = frozenset({"PATCH", "PUT"})


class Fresh:
    """Has the workers asked before `app` answers, and before it says that a change is made: those
    who answer have adopted it."""

    def __init__(self, app: ASGIApp, refresh: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._refresh = refresh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in _ASKED_FOR:
            await self._refresh()
        changes = scope["type"] == "http" and scope["method"] in _CHANGES
        await self._app(scope, receive, self._adopted(send) if changes else send)

    def _adopted(self, send: Send) -> Send:
        async def when_adopted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                await self._refresh()
            await send(message)

        return when_adopted


class SharedPage:
    """The metrics of all workers as one page."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        return written(self._registry, accept)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry for each page."""
        return as_metrics(self._roster.page())


def admin_of(
    roster: Roster,
    facts: StatusFacts,
    is_over: Callable[[], bool],
    live: LiveSettings,
    token: KeyDigest | None,
) -> ASGIApp:
    """`is_over`: the gateway is about to end. Whoever has the `token` may change what is `live`."""
    health = health_router(
        lambda: together.engines_at_best(roster.answering),
        lambda: roster.draining,
        without_engines="no worker serves",
        bar=facts.bar,
        names_engines=True,
    )
    return Fresh(
        admin_app(
            health,
            SharedPage(roster),
            status_router(facts, is_over),
            live_changes_router(live, ChangesOfAll(live, roster), token),
        ),
        roster.refresh,
    )


def facts_of(roster: Roster, settings: Settings, live: LiveSettings) -> StatusFacts:
    """What /status shows, as the workers were when they were asked last."""
    return StatusFacts(
        admission=lambda: together.admission(roster.reports, draining=roster.draining),
        totals=roster.totals,
        engine_states=lambda: together.engines_at_worst(roster.reports),
        views=lambda: together.views(roster.reports),
        binding_limit=lambda: next(
            (one.binding_limit for one in roster.reports if one.binding_limit is not None), None
        ),
        tenants=lambda: together.tenants(roster.reports),
        last_refusals=lambda: together.refusals(roster.reports),
        history=History(),
        shadow=settings.shadow,
        queue_timeout_s=settings.queue_timeout,
        wall_clock=time.time,
        workers=roster.workers,
        live=live.values,
        sharing=lambda: together.sharing(roster.reports),
    )
