"""The composition root: settings in, wired application out. The only file that knows every part."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.admission.controller import AdmissionController
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.retry_after import draw_retry_after
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.waiter import Waiter
from proxy.edge.api_keys import ApiKeys
from proxy.edge.client_watch import LateListeners
from proxy.edge.doorman import Doorman
from proxy.edge.drain import Drain
from proxy.edge.engine import Engine
from proxy.edge.gateway import Gateway
from proxy.edge.health import engine_trouble, health_router
from proxy.edge.intake import Intake
from proxy.edge.local_apps import admin_app, public_app
from proxy.edge.records import Records
from proxy.edge.request_headers import HeaderReader
from proxy.edge.responder import Responder
from proxy.edge.routes import RouteTable
from proxy.engine_control import EngineControl
from proxy.telemetry.metrics import Metrics
from proxy.upstream.address import UpstreamAddress
from proxy.upstream.header_rules import bearer
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import ConnectionPool
from proxy.upstream.port import UpstreamTimeouts
from proxy.vllm.poller import EnginePoller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp

    from proxy.config import Settings
    from proxy.edge.records import RecordSink
    from proxy.edge.token_meter import TokenMeter
    from proxy.upstream.port import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Everything that runs. `public` and `admin` are ASGI applications."""

    public: Gateway
    admin: ASGIApp
    controller: AdmissionController
    drain: Drain
    metrics: Metrics
    engines: dict[str, Engine]
    pollers: tuple[EnginePoller, ...]

    def start(self) -> None:
        """Begins to watch the engines. Needs a running event loop."""
        for poller in self.pollers:
            poller.start()

    def begin_drain(self) -> None:
        """From now on nothing new is admitted; those who wait are told at once."""
        self.drain.begin()
        self.controller.drain()

    async def stop(self) -> None:
        """Leaves no task and no connection behind."""
        for poller in self.pollers:
            await poller.stop()
        for engine in self.engines.values():
            await engine.upstream.aclose()


def build(
    settings: Settings,
    sinks: Sequence[RecordSink] = (),
    upstream: Upstream | None = None,
    *,
    poll_engines: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Application:
    """Wires an application; call it in the event loop that will run it.

    `sinks` get a record of every request. Tests in virtual time replace the HTTP client with an
    `upstream` of theirs, measure with the loop's `clock`, and do not poll engines.
    """
    loop = asyncio.get_running_loop()
    address = UpstreamAddress.parse(settings.upstream_url)
    name = str(address)
    key = settings.upstream_api_key.get_secret_value() if settings.upstream_api_key else None

    control = EngineControl(name, settings, loop.time)
    engine = Engine(
        name=name,
        address=address,
        upstream=upstream or _http_client(settings, address),
        authorization=bearer(key),
        state=control.state,
    )
    engines = {name: engine}
    routes = RouteTable.build(settings.expose)
    metrics = Metrics(
        routes.names(),
        admission=lambda: controller.snapshot(),  # noqa: PLW0108 - the controller comes after
        engines=lambda: {name: control.view()},
        binding_limit=lambda: control.binding_limit().which,
        token_estimate_error=_error_of(control.meter),
    )
    discipline = PriorityDiscipline[Waiter](
        loop.time, settings.weights_by_tenant, settings.tenant_max_in_flight
    )
    controller = AdmissionController(
        limits={name: control.limit},
        max_queue_depth=settings.max_queue_depth,
        clock=loop.time,
        observer=metrics,
        discipline=discipline,
        retry_budget=RetryBudget(settings.retry_budget),
        token_budgets={name: control.budgets},
        shadow=settings.shadow,
    )
    pollers: tuple[EnginePoller, ...] = ()
    if poll_engines:
        pollers = (_poller(name, key, control),)
    control.attach(controller, pollers[0] if pollers else None, lambda: discipline.active_tenants)
    drain = Drain()
    health = health_router(engines, drain)
    rng = random.Random()
    responder = Responder(
        overload_status=settings.overload_status,
        write_timeout_s=settings.write_timeout,
        retry_after=lambda expected_wait_s: draw_retry_after(expected_wait_s, rng),
        invite_back=controller.invite_back,
        engine_state=engine_trouble(engines),
        draining=lambda: drain.begun,
        shed=metrics.shed,
    )
    records = Records(metrics, routes.names(), sinks, time.time)
    public = Gateway(
        local_app=public_app(health),
        doorman=Doorman(
            header_reader=HeaderReader(settings.priority_header, settings.tenant_header or ""),
            keys=_keys(settings),
            routes=routes,
            controller=controller,
            records=records,
            queue_timeout_s=settings.queue_timeout,
        ),
        intake=_intake(settings),
        token_meter=control.meter,
        reads_usage=settings.trace_file is not None,
        max_seats_per_request=settings.max_seats_per_request,
        controller=controller,
        engines=engines,
        drain=drain,
        responder=responder,
        records=records,
        loop=loop,
        late_listeners=LateListeners(loop),
        clock=clock,
    )
    return Application(
        public=public,
        admin=admin_app(health, metrics),
        controller=controller,
        drain=drain,
        metrics=metrics,
        engines=engines,
        pollers=pollers,
    )


def _http_client(settings: Settings, address: UpstreamAddress) -> Upstream:
    timeouts = UpstreamTimeouts(
        connect_s=settings.connect_timeout,
        first_byte_s=settings.first_byte_timeout,
        idle_s=settings.idle_timeout,
        total_s=settings.total_timeout,
    )
    if settings.upstream_client == "httpx":
        return HttpxUpstream(address, timeouts)
    return ConnectionPool(address, timeouts)


def _keys(settings: Settings) -> ApiKeys:
    return ApiKeys({name: key.get_secret_value() for name, key in settings.client_keys.items()})


def _intake(settings: Settings) -> Intake:
    places = settings.max_in_flight + settings.max_queue_depth
    return Intake(
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout,
        max_buffered_bytes=places * settings.max_body_bytes,
    )


def _poller(name: str, key: str | None, control: EngineControl) -> EnginePoller:
    return EnginePoller(
        name,
        key,
        on_change=control.status_changed,
        on_reading=control.status_read,
        holding=lambda: control.in_flight > 0,
        wants_model_len=control.meter is not None,
    )


def _error_of(meter: TokenMeter | None) -> Callable[[], float | None] | None:
    return None if meter is None else lambda: meter.estimate.error
