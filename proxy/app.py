"""The composition root: settings in, wired application out. The only file that knows every part."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from proxy.admission.controller import AdmissionController
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.placement.bounded_ring import BoundedRing
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.retry_after import draw_retry_after
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.waiter import Waiter
from proxy.discovery.engine_list import EngineList
from proxy.discovery.expansion import is_name
from proxy.discovery.resolver import SystemResolver
from proxy.discovery.upstreams_file import UpstreamsFile
from proxy.edge.affinity import PrefixAffinity, no_affinity, session_affinity
from proxy.edge.api_keys import ApiKeys
from proxy.edge.client_watch import LateListeners
from proxy.edge.doorman import Doorman
from proxy.edge.drain import Drain
from proxy.edge.gateway import Gateway
from proxy.edge.health import engine_trouble, health_router
from proxy.edge.intake import Intake
from proxy.edge.live_changes import live_changes_router
from proxy.edge.local_apps import admin_app, public_app
from proxy.edge.open_places import OpenPlaces
from proxy.edge.open_routes import OpenRoutes
from proxy.edge.records import Records
from proxy.edge.request_headers import HeaderReader
from proxy.edge.responder import Responder
from proxy.edge.routes import RouteTable
from proxy.edge.status.facts import StatusFacts
from proxy.edge.status.history import History
from proxy.edge.status.recent_refusals import RecentRefusals
from proxy.edge.status.router import status_router
from proxy.edge.status.watch import StatusWatch
from proxy.effective_limits import bodies_of_a_worker, open_requests_of_a_worker
from proxy.engine_clients import EngineClients
from proxy.engine_fleet import EngineFleet
from proxy.live_control import LiveControl
from proxy.live_settings import LiveSettings
from proxy.shared_limit.lease_keeper import LeaseKeeper
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.sharing_view import SharingView
from proxy.telemetry.trace_context import Tracing
from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.types import ASGIApp

    from proxy.admission.ports import Placement
    from proxy.admission.snapshot import Demand
    from proxy.config import Settings
    from proxy.discovery.resolver import Resolver
    from proxy.edge.affinity import Affinity
    from proxy.edge.engine import EngineState
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
    engine_list: EngineList
    fleet: EngineFleet
    engine_clients: EngineClients
    leases: LeaseKeeper | None
    control: LiveControl
    facts: StatusFacts
    status: StatusWatch

    async def start(self) -> None:
        """Finds the engines, and begins to watch them and what says which they are."""
        await self.engine_list.start()
        if self.leases is not None:
            self.leases.start()
        self.fleet.start()
        self.status.start()
        await self.fleet.until_seen()

    def begin_drain(self) -> None:
        """From now on nothing new is admitted; those who wait are told at once."""
        self.drain.begin()
        self.controller.drain()

    async def stop(self) -> None:
        """Leaves no task and no connection behind."""
        await self.engine_list.stop()
        await self.status.stop()
        await self.fleet.stop()
        if self.leases is not None:
            await self.leases.stop()


def build(
    settings: Settings,
    sinks: Sequence[RecordSink] = (),
    upstream: Upstream | None = None,
    *,
    poll_engines: bool = True,
    resolver: Resolver | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Application:
    """Wires an application; call it in the event loop that will run it.

    `sinks` get a record of every request. Tests in virtual time replace the HTTP client with an
    `upstream` of theirs, measure with the loop's `clock`, do not poll engines, and look names up
    with a `resolver` of theirs, or not at all.
    """
    loop = asyncio.get_running_loop()
    rng = random.Random()
    live = LiveSettings(settings)
    leases = _leases(
        settings,
        lambda engine: fleet.demand(engine),  # noqa: PLW0108 - the fleet comes after
        lambda: controller.limit_changed(),  # noqa: PLW0108 - and so does the controller
    )
    clients = EngineClients(settings)
    fleet = EngineFleet(
        settings,
        lambda address: upstream or clients.of(address),
        loop.time,
        poll=poll_engines,
        may_be_several=_may_be_several(settings),
        leases=leases,
    )
    engines = fleet.engines
    routes = RouteTable.build(settings.expose)
    metrics = Metrics(
        routes.names(),
        admission=lambda: controller.snapshot(),  # noqa: PLW0108 - the controller comes after
        engines=fleet.view,
        binding_limit=lambda: limit.which if (limit := fleet.binding_limit()) else None,
        token_estimate_error=_error_of(fleet.meter),
        sharing=_sharing_of(leases),
    )
    disciplines: WeakSet[PriorityDiscipline[Waiter]] = WeakSet()  # one a queue, as long as it is
    controller = AdmissionController(
        limits={},
        max_queue_depth=live.places,
        clock=loop.time,
        observer=metrics,
        new_discipline=lambda: _discipline(settings, loop.time, disciplines),
        retry_budget=RetryBudget(settings.retry_budget),
        shadow=settings.shadow,
        new_placement=lambda: _placement(settings, rng),
    )
    intake = Intake(settings.max_body_bytes, settings.body_timeout, 0)
    open_places = OpenPlaces(intake, RetryBudget(settings.retry_budget), loop.time)

    def sized_for(engines: int, with_leaving: int) -> None:
        bodies = bodies_of_a_worker(live.now, engines)
        intake.max_buffered_bytes = bodies * settings.max_body_bytes
        leaving = with_leaving - engines
        open_places.resize(open_requests_of_a_worker(live.now), engines, leaving)

    fleet.attach(controller, lambda: _most_tenants(disciplines), sized_for)
    engine_list = _engine_list(settings, resolver or SystemResolver(), fleet)
    fleet.set(engine_list.engines)  # those behind host names follow at the start
    drain = Drain()
    control = LiveControl(live, controller, fleet, drain)

    def engine_states() -> dict[str, EngineState]:
        return {name: engine.state() for name, engine in engines.items()}

    responder = Responder(
        overload_status=settings.overload_status,
        write_timeout_s=settings.write_timeout,
        retry_after=lambda expected_wait_s: draw_retry_after(expected_wait_s, rng),
        invite_back=controller.invite_back,
        engine_state=engine_trouble(fleet.serving),
        draining=lambda: drain.begun,
        shed=metrics.shed,
    )
    refusals = RecentRefusals()
    records = Records(metrics, routes.names(), sinks, time.time, refusals)
    status = StatusFacts(
        admission=controller.snapshot,
        totals=metrics.totals,
        engine_states=engine_states,
        views=fleet.view,
        binding_limit=fleet.binding_limit,
        tenants=lambda: [tenant for one in disciplines for tenant in one.tenants()],
        last_refusals=refusals.latest,
        history=History(),
        shadow=settings.shadow,
        queue_timeout_s=settings.queue_timeout,
        wall_clock=time.time,
        live=live.values,
        sharing=_sharing_of(leases),
    )
    health, health_in_detail = (
        health_router(engine_states, lambda: drain.begun, bar=status.bar, names_engines=named)
        for named in (False, True)
    )
    public = Gateway(
        local_app=public_app(health),
        doorman=Doorman(
            header_reader=_header_reader(settings),
            keys=ApiKeys(settings.client_keys),
            routes=routes,
            controller=controller,
            records=records,
            open_places=open_places,
            queue_timeout_s=lambda: live.now.queue_timeout,
        ),
        intake=intake,
        token_meter=fleet.meter,
        reads_usage=settings.trace_file is not None,
        max_seats_per_request=settings.max_seats_per_request,
        controller=controller,
        engines=engines,
        open_routes=OpenRoutes(fleet.served, fleet.any_engine),
        open_places=open_places,
        affinity=_affinity(settings),
        drain=drain,
        responder=responder,
        records=records,
        loop=loop,
        late_listeners=LateListeners(loop),
        tracing=Tracing(settings.otlp_sample, rng) if settings.otlp_endpoint else None,
        clock=clock,
    )
    return Application(
        public=public,
        admin=admin_app(
            health_in_detail,
            metrics,
            status_router(status, lambda: drain.is_over),
            live_changes_router(live, control, settings.admin_token),
        ),
        controller=controller,
        drain=drain,
        metrics=metrics,
        engine_list=engine_list,
        fleet=fleet,
        engine_clients=clients,
        leases=leases,
        control=control,
        facts=status,
        status=StatusWatch(status.sample),
    )


def _discipline(
    settings: Settings,
    clock: Callable[[], float],
    made: WeakSet[PriorityDiscipline[Waiter]],
) -> PriorityDiscipline[Waiter]:
    """Each queue has one of its own."""
    discipline = PriorityDiscipline[Waiter](
        clock,
        settings.weights_by_tenant,
        settings.tenant_max_in_flight and settings.of_a_worker(settings.tenant_max_in_flight),
    )
    made.add(discipline)
    return discipline


def _most_tenants(disciplines: Iterable[PriorityDiscipline[Waiter]]) -> int:
    """In one queue: in front of one engine there are no more."""
    return max((one.active_tenants for one in disciplines), default=0)


def _placement(settings: Settings, rng: random.Random) -> Placement:
    return Roomiest(rng) if settings.affinity == "none" else BoundedRing(rng)


def _affinity(settings: Settings) -> Affinity:
    match settings.affinity:
        case "session":
            return session_affinity
        case "prefix":
            return PrefixAffinity(settings.affinity_prefix_bytes)
        case _:
            return no_affinity


def _engine_list(settings: Settings, resolver: Resolver, fleet: EngineFleet) -> EngineList:
    file = settings.upstreams_file
    return EngineList(
        [UpstreamAddress.parse(url) for url in settings.upstream_urls],
        fleet.set,
        file=UpstreamsFile(file) if file else None,
        resolver=resolver if settings.dns_interval else None,
        dns_interval_s=settings.dns_interval,
        own_host=socket.gethostname(),
        by_address=settings.redis_url is not None,
    )


def _may_be_several(settings: Settings) -> bool:
    """Whether there may ever be more than one engine: only then is it asked what it serves."""
    addresses = [UpstreamAddress.parse(url) for url in settings.upstream_urls]
    named = any(is_name(address.host, socket.gethostname()) for address in addresses)
    by_name = named and settings.dns_interval > 0
    return settings.upstreams_file is not None or len(addresses) > 1 or by_name


def _leases(
    settings: Settings, demand_of: Callable[[str], Demand], has_grown: Callable[[], None]
) -> LeaseKeeper | None:
    if settings.redis_url is None:
        return None
    from proxy.shared_limit.redis_store import RedisStore  # noqa: PLC0415 - needs an extra

    gateway = secrets.token_hex(8)
    store = RedisStore(settings.redis_url.get_secret_value(), settings.cluster, gateway)
    return LeaseKeeper(store, gateway, demand_of, has_grown)


def _sharing_of(leases: LeaseKeeper | None) -> Callable[[], SharingView] | None:
    return None if leases is None else lambda: SharingView(**asdict(leases.state()))


def _header_reader(settings: Settings) -> HeaderReader:
    session = settings.session_header if settings.affinity == "session" else ""
    return HeaderReader(settings.priority_header, settings.tenant_header or "", session)


def _error_of(meter: TokenMeter | None) -> Callable[[], float | None] | None:
    return None if meter is None else lambda: meter.estimate.error
