"""Engines behind one host name, which come and go as its addresses do: nobody is drained who stays,
and nobody who runs is cut off."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.app import Application, build
from proxy.engine_clients import EngineClients
from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import settings
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import Hold, ScriptedApp
from tests.support.scripted_resolver import ScriptedResolver
from tests.support.virtual_time import run, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import pytest

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import UpstreamRequest
    from tests.support.asgi_transport import AsgiExchange
    from tests.support.in_memory_upstream import InMemoryResponse

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PLAIN = "http://vllm:8000"
A_LOOKUP_S = 5.5
UNSEATED_S = 6.0


class ByAddress:
    """The client of one engine, which leads to whatever runs at its address."""

    def __init__(self, site: Site, address: UpstreamAddress) -> None:
        self._site = site
        self._ip = address.ip
        self.closed = False

    def exchange(
        self, request: UpstreamRequest
    ) -> contextlib.AbstractAsyncContextManager[InMemoryResponse]:
        return self._site.wires[self._ip].exchange(request)

    def move(self, address: UpstreamAddress) -> None:
        self._ip = address.ip

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Site:
    """An engine at each address, all of which hold what they are sent, and the name server."""

    application: Application = field(init=False)
    client: AsgiClient = field(init=False)
    resolver: ScriptedResolver = field(init=False)

    def __post_init__(self) -> None:
        self.holds = {ip: Hold() for ip in (A, B, C)}
        self.apps = {ip: ScriptedApp(hold) for ip, hold in self.holds.items()}
        self.wires = {ip: InMemoryUpstream(engine) for ip, engine in self.apps.items()}

    def run_at(self, ips: Iterable[str]) -> None:
        """Engines that answer at once."""
        self.wires |= {ip: InMemoryUpstream(ScriptedApp()) for ip in ips}

    def running(self) -> dict[str, int]:
        """Requests by address, where there are any."""
        return {ip: engine.in_flight for ip, engine in self.apps.items() if engine.in_flight}

    def engines(self) -> dict[str, int]:
        """Seats taken by name."""
        upstreams = self.application.controller.snapshot().upstreams
        return {one.name: one.in_flight for one in upstreams}

    async def ask(self, count: int = 1) -> list[AsgiExchange]:
        asked = [self.client.start("POST", b"/v1/completions", body=b"{}") for _ in range(count)]
        await settle()
        return asked

    async def resolves_to(self, *ips: str) -> None:
        self.resolver.answers["vllm"] = list(ips)
        await asyncio.sleep(A_LOOKUP_S)


@contextlib.asynccontextmanager
async def site(monkeypatch: pytest.MonkeyPatch, *ips: str) -> AsyncIterator[Site]:
    """Two seats in each engine."""
    found = Site()
    found.resolver = ScriptedResolver(vllm=list(ips))
    monkeypatch.setattr(EngineClients, "of", lambda _, address: ByAddress(found, address))
    found.application = build(
        settings(upstream_urls=PLAIN, dns_interval=5, queue_timeout=600),
        poll_engines=False,
        resolver=found.resolver,
        clock=asyncio.get_running_loop().time,
    )
    found.client = AsgiClient(found.application.public)
    await found.application.start()
    try:
        yield found
        await settle()
        assert found.application.controller.snapshot().in_flight == 0
    finally:
        await found.application.stop()


async def all_end_well(asked: list[AsgiExchange]) -> None:
    answers = await asyncio.gather(*(exchange.response() for exchange in asked))
    assert [answer.status for answer in answers] == [200] * len(asked)


def test_each_address_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A, B) as vllm:
            asked = await vllm.ask(5)
            assert vllm.running() == {A: 2, B: 2}
            assert vllm.engines() == {f"{PLAIN}#{A}": 2, f"{PLAIN}#{B}": 2}
            for hold in vllm.holds.values():
                hold.release()
            await all_end_well(asked)

    run(scenario())


def test_one_that_joins_takes_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A) as vllm:
            asked = await vllm.ask(4)
            assert vllm.running() == {A: 2}
            await vllm.resolves_to(A, B)
            assert vllm.running() == {A: 2, B: 2}
            assert vllm.engines() == {PLAIN: 2, f"{PLAIN}#{B}": 2}
            for hold in vllm.holds.values():
                hold.release()
            await all_end_well(asked)

    run(scenario())


def test_one_that_goes_gets_nothing_new_and_ends_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A, B) as vllm:
            asked = await vllm.ask(4)
            gone = vllm.application.fleet.engines[f"{PLAIN}#{A}"].upstream
            await vllm.resolves_to(B)
            vllm.holds[B].release()
            asked += await vllm.ask(3)
            assert vllm.running() == {A: 2}
            vllm.holds[A].release()
            await all_end_well(asked)
            await asyncio.sleep(UNSEATED_S)
            assert vllm.engines() == {f"{PLAIN}#{B}": 0}
            assert isinstance(gone, ByAddress)
            assert gone.closed

    run(scenario())


def test_a_lone_engine_that_is_replaced_moves_and_its_old_streams_hold_their_seats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A) as vllm:
            asked = await vllm.ask(1)
            await vllm.resolves_to(B)
            asked += await vllm.ask(2)
            assert vllm.running() == {A: 1, B: 1}
            assert vllm.engines() == {PLAIN: 2}
            for hold in vllm.holds.values():
                hold.release()
            await all_end_well(asked)

    run(scenario())


def test_an_address_that_comes_and_goes_changes_nothing_for_the_one_that_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A) as vllm:
            asked = await vllm.ask(2)
            stays = vllm.application.fleet.engines[PLAIN]
            for _ in range(10):
                await vllm.resolves_to(A, B)
                assert vllm.engines() == {PLAIN: 2, f"{PLAIN}#{B}": 0}
                await vllm.resolves_to(A)
                assert vllm.application.fleet.engines[PLAIN] is stays
                assert vllm.engines()[PLAIN] == 2
            vllm.holds[A].release()
            await all_end_well(asked)

    run(scenario())


def test_a_name_server_gone_mad_costs_nobody_who_stays_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Hundreds of addresses, others each time, none, and faults, in turn."""

    async def scenario() -> None:
        async with site(monkeypatch, A) as vllm:
            running = await vllm.ask(2)
            stays = vllm.application.fleet.engines[PLAIN]
            for number in range(3):
                many = [f"10.{number}.{one // 200}.{one % 200 + 10}" for one in range(300)]
                vllm.run_at(many)
                await vllm.resolves_to(A, *many)
                assert len(vllm.engines()) == 301
                others = await vllm.ask(100)
                await all_end_well(others)
                await vllm.resolves_to()
                assert len(vllm.engines()) >= 301, "none is no answer"
                vllm.resolver.answers["vllm"] = OSError("nobody answers")
                await asyncio.sleep(A_LOOKUP_S)
                await vllm.resolves_to(A)
                assert vllm.application.fleet.engines[PLAIN] is stays
            await asyncio.sleep(UNSEATED_S)
            assert vllm.engines() == {PLAIN: 2}
            assert max(len(one.getMessage()) for one in caplog.records) < 500
            vllm.holds[A].release()
            await all_end_well(running)

    run(scenario())


def test_names_that_cannot_be_looked_up_any_more_cost_nobody_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with site(monkeypatch, A, B) as vllm:
            vllm.resolver.answers["vllm"] = OSError("no name server")
            await asyncio.sleep(600)
            asked = await vllm.ask(4)
            assert vllm.running() == {A: 2, B: 2}
            for hold in vllm.holds.values():
                hold.release()
            await all_end_well(asked)

    run(scenario())
