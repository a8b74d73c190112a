"""The engines that there are now: each with its HTTP client, its poller and its control.

They come and go while requests run. One that goes gets no new request; its client is closed when
the last of its requests has ended. One that comes back before that goes on as the one it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proxy.edge.engine import Engine, LifeSign, OpenRequests
from proxy.edge.open_places import KEPT_FOR_INQUIRIES
from proxy.edge.token_meter import TokenMeter
from proxy.effective_limits import open_requests_of_a_worker
from proxy.engine_control import EngineControl
from proxy.upstream.header_rules import bearer
from proxy.vllm.poller import EnginePoller
from proxy.vllm.silence import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from proxy.admission.controller import AdmissionController
    from proxy.admission.snapshot import Demand
    from proxy.openai_api.measure import Measured
    from proxy.openai_api.usage import Usage
    from proxy.settings import Settings
    from proxy.shared_limit.lease_keeper import LeaseKeeper
    from proxy.telemetry.engine_view import EngineView
    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import Upstream
    from proxy.vllm.binding_limit import BindingLimit
    from proxy.vllm.served_models import ServedModel

_log = logging.getLogger("sluice.engine")

# Requests that take no seats, such as a list of models, are soon over.
_UNSEATED_S = 5.0


@dataclass(frozen=True, slots=True)
class _Member:
    engine: Engine
    control: EngineControl
    poller: EnginePoller | None


class EngineFleet:
    """`new_client` makes the HTTP client for an address. `clock` is the event loop's time().

    `engines` is what the gateway reads; it changes in place. Without `poll` nobody asks the engines
    how they are; what they serve is asked only where there `may_be_several`. `leases` is there
    where other gateways share the limits.
    """

    def __init__(
        self,
        settings: Settings,
        new_client: Callable[[UpstreamAddress], Upstream],
        clock: Callable[[], float],
        *,
        poll: bool = True,
        may_be_several: bool = True,
        leases: LeaseKeeper | None = None,
    ) -> None:
        self.engines: dict[str, Engine] = {}
        self.meter: TokenMeter | None = None
        if settings.max_prefill_tokens or settings.max_kv_tokens:
            self.meter = TokenMeter(self._longest_model_len, self._answered)
        self._settings = settings
        self._new_client = new_client
        self._clock = clock
        self._polls = poll
        self._may_be_several = may_be_several
        self._leases = leases
        self._members: dict[str, _Member] = {}
        self._retiring: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._controller: AdmissionController | None = None
        self._active_tenants: Callable[[], int] | None = None
        self._counted: Callable[[int, int], None] = lambda _, __: None
        self._is_started = False

    def attach(
        self,
        controller: AdmissionController,
        active_tenants: Callable[[], int] | None = None,
        counted: Callable[[int, int], None] = lambda _, __: None,
    ) -> None:
        """Comes first: the engines' seats are granted in `controller`. `counted` hears how many
        engines there are, and how many with those that are leaving, whenever that changes."""
        self._controller = controller
        self._active_tenants = active_tenants
        self._counted = counted

    def set(self, addresses: Iterable[UpstreamAddress]) -> None:
        """From now on these are the engines, in one step. Needs a running event loop."""
        wanted = {str(address): address for address in addresses}
        gone = self._members.keys() - wanted.keys() - self._retiring.keys()
        for name, address in wanted.items():  # first, so that nobody need be told that all are gone
            if name not in self._members or name in self._retiring:
                self._add(name, address)
            self._move(name, address)
        for name in gone:
            self._retire(name)
        self._tell_how_many()

    def adopt(self, settings: Settings) -> None:
        """Somebody has changed them. What runs goes on, above a lower limit too."""
        self._settings = settings
        for member in self._members.values():
            member.control.adopt(settings)
        self._tell_how_many()
        self._attached().limit_changed()

    def start(self) -> None:
        """Begins to watch the engines. Needs a running event loop."""
        self._is_started = True
        for member in self._members.values():
            if member.poller is not None:
                member.poller.start()

    async def until_seen(self, within_s: float = 3.0) -> None:
        """Until each of several engines has been asked once, and so every request finds the one
        that serves its model. One alone gets them all anyway."""
        if not self._polls or len(self._members) < 2:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for member in list(self._members.values()):
                    await member.control.seen.wait()

    def look_now(self) -> None:
        """Somebody knows that an engine has changed: they are asked at once, not in their turn."""
        for member in self._members.values():
            if member.poller is not None:
                member.poller.look_now()

    async def stop(self) -> None:
        """Leaves no task and no connection behind."""
        retiring = list(self._retiring.values())
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, *self._closing, return_exceptions=True)
        await asyncio.gather(*map(self._close, self._members.values()))

    # What others read

    def demand(self, name: str) -> Demand:
        """Of seats in one of the engines."""
        return self._members[name].control.demand()

    def view(self) -> Mapping[str, EngineView]:
        return {
            name: replace(member.control.view(), open_requests=member.engine.open_requests.count)
            for name, member in self._members.items()
        }

    def most_connections(self) -> int:
        """To the engines, those included that only end what runs there: one a seat, one for
        questions, and those of requests that take no seat."""
        engines = len(self._members)
        each = self._settings.max_in_flight + 1 + open_requests_of_a_worker(self._settings)
        return each * engines + KEPT_FOR_INQUIRIES

    def binding_limit(self) -> BindingLimit | None:
        """What binds first in the engine that is fullest; None when there is no engine."""
        seats = self._attached().snapshot().upstreams
        fullest = max(seats, key=lambda one: one.in_flight / (one.limit or 1), default=None)
        return self._members[fullest.name].control.binding_limit() if fullest else None

    def served(self) -> list[tuple[ServedModel, ...]]:
        """What each engine serves, or did when it was last up; in the order of their coming."""
        return [member.control.last_served for member in self._staying()]

    def serving(self, model: str | None) -> list[Engine]:
        """The engines that serve it, or did; all, if it is None or nobody's."""
        staying = self._staying()
        those = [
            member
            for member in staying
            if model and any(model == served.id for served in member.control.last_served)
        ]
        return [member.engine for member in those or staying]

    def any_engine(self, model: str | None = None) -> Engine | None:
        """For what takes no seat: one of serving() that is ready, or at least not down, or any; of
        several, the one with the fewest such requests, so that one that sits on them does not
        gather all that there may be."""
        engines = self.serving(model)
        if len(engines) < 2:
            return engines[0] if engines else None
        states = [(engine.state(), engine) for engine in engines]
        ready = [engine for state, engine in states if state.ready]
        alive = [engine for state, engine in states if state.up is not False]
        fit = ready or alive or engines
        fewest = min(engine.open_requests.count for engine in fit)
        return random.choice([engine for engine in fit if engine.open_requests.count == fewest])

    def _staying(self) -> list[_Member]:
        return [member for member in self._members.values() if not member.control.is_leaving]

    def _call_those_like(self, lost: EngineControl) -> None:
        """Who can take over from one that cannot be reached is needed now, taken out or not."""
        for member in self._staying():
            if member.control is not lost and member.control.serves_all_of(lost):
                member.control.ask_again()

    # Coming and going

    def _add(self, name: str, address: UpstreamAddress) -> None:
        retiring = self._retiring.pop(name, None)
        if retiring is not None:
            retiring.cancel()
            member = self._members[name]
        else:
            member = self._members[name] = self._member(name, address)
            self.engines[name] = member.engine
        begins = self._is_started and retiring is None and member.poller is not None
        member.control.join(unseen=begins and len(self._members) > 1)
        if self._is_started:
            _log.info("engine %s: added", name)
        if begins and member.poller is not None:
            member.poller.start()

    def _move(self, name: str, address: UpstreamAddress) -> None:
        """Takes an engine to another address, where it has got one under the same name. Its seats
        stay: what still runs at the old address counts as if it ran at the new one."""
        member = self._members[name]
        if address == member.engine.address:
            return
        self.engines[name] = engine = replace(member.engine, address=address)
        self._members[name] = replace(member, engine=engine)
        engine.upstream.move(address)
        if member.poller is not None:
            member.poller.move(address.ip)
        _log.info("engine %s: its address is %s now", name, address.ip)

    def _member(self, name: str, address: UpstreamAddress) -> _Member:
        settings, key = self._settings, self._settings.upstream_api_key
        secret = key.get_secret_value() if key else None
        lease = self._leases.lease(name, settings.max_in_flight) if self._leases else None
        control = EngineControl(name, settings, self._clock, self.meter, lease)
        life_sign, open_requests = LifeSign(), OpenRequests()
        poller = None
        if self._polls:
            poller = self._poller(address, secret, control, open_requests, life_sign)
        control.attach(
            self._attached(), poller, self._active_tenants, lambda: self._call_those_like(control)
        )
        engine = Engine(
            name=name,
            address=address,
            upstream=self._new_client(address),
            authorization=bearer(secret),
            state=control.state,
            report=control.report,
            life_sign=life_sign,
            open_requests=open_requests,
        )
        return _Member(engine, control, poller)

    def _poller(
        self,
        address: UpstreamAddress,
        key: str | None,
        control: EngineControl,
        open_requests: OpenRequests,
        life_sign: LifeSign,
    ) -> EnginePoller:
        return EnginePoller(
            address.url,
            key,
            on_change=control.status_changed,
            on_reading=control.status_read,
            holding=lambda: Held(control.in_flight, open_requests.count),
            heard=life_sign.take,
            on_wait=control.time_passed,
            wants_models=self._may_be_several or self.meter is not None,
            name=str(address),
            ip=address.ip,
        )

    def _retire(self, name: str) -> None:
        empty = asyncio.Event()
        self._members[name].control.leave(empty.set)
        self._retiring[name] = asyncio.create_task(self._end(name, empty), name=f"retire {name}")
        _log.info("engine %s: removed, its running requests go on", name)

    async def _end(self, name: str, empty: asyncio.Event) -> None:
        await empty.wait()
        await asyncio.sleep(_UNSEATED_S)
        while self._members[name].engine.open_requests.count:  # noqa: ASYNC110 - a bare count
            await asyncio.sleep(_UNSEATED_S)
        member, task = self._members.pop(name), self._retiring.pop(name)
        del self.engines[name]
        if self._leases is not None:
            self._leases.give_up(name)
        self._tell_how_many()
        self._closing.add(task)  # from here on another one of that name may be added
        try:
            await self._close(member)
        finally:
            self._closing.discard(task)

    def _tell_how_many(self) -> None:
        self._counted(len(self._members) - len(self._retiring), len(self._members))

    @staticmethod
    async def _close(member: _Member) -> None:
        if member.poller is not None:
            await member.poller.stop()
        await member.engine.upstream.aclose()

    def _attached(self) -> AdmissionController:
        if self._controller is None:
            raise RuntimeError("attach() comes first")
        return self._controller

    # Tokens

    def _longest_model_len(self) -> int | None:
        """None as long as any engine has not told: a request could be right for that one."""
        lengths = [member.control.model_len for member in self._staying()]
        known = [length for length in lengths if length is not None]
        return max(known) if known and len(known) == len(lengths) else None

    def _answered(self, upstream: str, measured: Measured, usage: Usage | None) -> None:
        member = self._members.get(upstream)
        if member is not None:
            member.control.finished(measured, usage)
