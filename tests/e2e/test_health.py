"""Alive and ready: what probes are told while the gateway is full, the engine slow, dying or back.

Field cases R64, R66 and R105. A probe that fails under load restarts a server that worked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.burst import Burst
from tests.support.gateway_process import gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.process_figures import processor_seconds
from tests.support.raw_client import ask_once, request_bytes
from tests.support.scripted_upstream import (
    Hold,
    ScriptedUpstream,
    json_answer,
    silent,
    sse_stream,
)
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.gateway_process import GatewayProcess
    from tests.support.raw_client import RawAnswer

# What orchestrators give a probe, as a rule. Idle, it takes a millisecond.
PROBE_TIMEOUT_S = 1.0
HEALTHZ = request_bytes("/healthz", b"", "GET")
READYZ = request_bytes("/readyz", b"", "GET")
OVERLOADED = "service_unavailable_error"


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=2, max_queue_depth=4, queue_timeout=5) as stand:
        yield stand


class Prober(threading.Thread):
    """Asks one path again and again, each time on a connection of its own, as kubelet does."""

    def __init__(self, port: int, request: bytes, every_s: float) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._request = request
        self._every_s = every_s
        self._over = threading.Event()
        self.statuses: list[bytes] = []
        self.delays_s: list[float] = []

    def run(self) -> None:
        while not self._over.is_set():
            started = time.perf_counter()
            self.statuses.append(self._ask())
            self.delays_s.append(time.perf_counter() - started)
            self._over.wait(self._every_s)

    def _ask(self) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self._port), PROBE_TIMEOUT_S) as asking:
                asking.settimeout(PROBE_TIMEOUT_S)
                asking.sendall(self._request)
                return asking.recv(4096)[9:12]
        except OSError as error:
            return repr(error).encode()

    def stop(self) -> None:
        self._over.set()
        self.join()


class Flooder(threading.Thread):
    """Sends one request after the other on one connection, or on as many as it takes."""

    def __init__(self, port: int, request: bytes) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._request = request
        self._over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._over.is_set():
            with (
                contextlib.suppress(ConnectionError),  # an upload that nobody wants is cut off
                socket.create_connection(("127.0.0.1", self._port)) as flooding,
            ):
                while not self._over.is_set():
                    flooding.sendall(self._request)
                    self.sent += 1
                    if not flooding.recv(65_536):
                        break

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextlib.asynccontextmanager
async def probing(*probers: Prober) -> AsyncIterator[None]:
    """Fails when a probe was refused, broken off, or took too long."""
    for prober in probers:
        prober.start()
    try:
        yield
    finally:
        for prober in probers:
            await asyncio.to_thread(prober.stop)
    for prober in probers:
        assert set(prober.statuses) == {b"200"}
        assert max(prober.delays_s) < PROBE_TIMEOUT_S
        assert len(prober.statuses) >= 10


async def reason_not_ready(stand: Stand) -> str:
    answer = await ask_once(stand.sluice.port, READYZ)
    assert answer.status == 503
    reason: str = json.loads(answer.body)["reason"]
    return reason


async def until_ready(port: int, within_s: float = 3.0) -> None:
    async with asyncio.timeout(within_s):
        while (await ask_once(port, READYZ)).status != 200:
            await asyncio.sleep(0.02)


# Under load.


@pytest.mark.alone("a flood, and probes that have a second")
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_flooded_gateway_is_alive_and_ready_and_asks_the_engine_nothing_for_it() -> None:
    """R64: every seat and place taken, large uploads and a flood of refusals."""
    upload = request_bytes(body=b"x" * 20_000_000)

    async def scenario() -> None:
        settings = {"max_in_flight": 2, "max_queue_depth": 4, "queue_timeout": 60}
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, **settings) as sluice,
        ):
            with Burst(sluice.port, 6) as burst:
                await burst.send(request_bytes())
                await sluice.until_metric("sluice_queue_depth", 4)
                probed, began = len(upstream.probed), time.monotonic()
                uploads = [Flooder(sluice.port, upload) for _ in range(4)]
                requests = [Flooder(sluice.port, request_bytes()) for _ in range(4)]
                for flooder in uploads + requests:
                    flooder.start()
                async with probing(*probers_of(sluice)):
                    await asyncio.sleep(4)
                for flooder in uploads + requests:
                    await asyncio.to_thread(flooder.stop)
            assert await sluice.metric("sluice_shed_total", reason="queue_full") >= 500, "no flood"
            assert min(flooder.sent for flooder in requests) > 10
            # The poller asks for /health and /metrics each second, whoever asks us for what.
            assert len(upstream.probed) - probed <= 2 * (time.monotonic() - began) + 4
            assert len(upstream.seen) == 2

    asyncio.run(scenario())


def probers_of(sluice: GatewayProcess) -> list[Prober]:
    """Both listeners, both probes."""
    return [
        Prober(port, request, 0.05)
        for port in (sluice.port, sluice.admin_port)
        for request in (HEALTHZ, READYZ)
    ]


@pytest.mark.alone("hundreds of streams, and probes that have a second")
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_no_probe_is_missed_while_hundreds_of_streams_flow() -> None:
    """R105"""
    streams = 400

    async def scenario() -> None:
        flowing = sse_stream(events=1000, interval_s=0.2)
        async with (
            ScriptedUpstream(flowing) as upstream,
            gateway(upstream.url, max_in_flight=streams) as sluice,
        ):
            with Burst(sluice.port, streams) as burst:
                await burst.send(request_bytes(body={"stream": True}))
                await upstream.until(lambda: upstream.inflight == streams)
                async with probing(Prober(sluice.port, HEALTHZ, 0.1)):
                    await asyncio.sleep(5)
                assert upstream.inflight == streams
            await upstream.until(lambda: upstream.inflight == 0)
            await sluice.until_idle()

    asyncio.run(scenario())


@on_the_stand
async def test_being_full_is_no_reason_not_to_be_ready(stand: Stand) -> None:
    """R64: else a balancer would send the rest of the load to fewer and fewer."""
    stand.upstream.handler = hold = Hold()
    with Burst(stand.sluice.port, 7) as burst:
        await burst.send(request_bytes())
        assert [answer.status for answer in await burst.answers(1)] == [503]
        for port in (stand.sluice.port, stand.sluice.admin_port):
            assert (await ask_once(port, HEALTHZ)).status == 200
            assert (await ask_once(port, READYZ)).status == 200
        hold.release()
        await burst.answers(6)


@on_the_stand
async def test_probes_may_ask_with_head(stand: Stand) -> None:
    """R64"""
    for target in ("/healthz", "/readyz"):
        async with await stand.client() as client:
            client.send(request_bytes(target, b"", "HEAD"))
            answer = await client.answer(head_request=True)
            assert answer.status == 200
            assert (await client.ask(HEALTHZ)).status == 200


# An engine that is slow, ill, or gone.


@pytest.mark.timeout(30)
@on_the_stand
async def test_one_slow_health_check_takes_nothing_out_of_service(stand: Stand) -> None:
    """R64: a saturated engine misses a probe, and is an engine all the same."""
    healthy = stand.upstream.probes
    stand.upstream.probes = {**healthy, b"/health": silent}

    def given_up() -> bool:
        return any(probe.path == b"/health" and probe.aborted for probe in stand.upstream.probed)

    async with probing(Prober(stand.sluice.port, READYZ, 0.2)):
        await stand.upstream.until(given_up, within_s=10)
        assert (await ask_once(stand.sluice.port, request_bytes())).status == 200
    stand.upstream.probes = healthy


@on_the_stand
async def test_an_engine_that_calls_itself_dead_is_not_asked_and_not_ready(stand: Stand) -> None:
    """R66: vLLM's server may outlive its engine. The gateway itself is alive."""
    healthy = stand.upstream.probes
    stand.upstream.handler = hold = Hold()
    async with await stand.client() as running, await stand.client() as waiting:
        running.send(request_bytes(body={"n": 2}))
        await stand.upstream.until(lambda: stand.upstream.inflight == 1)
        waiting.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 1)
        stand.upstream.probes = {**healthy, b"/health": json_answer(status=503)}
        # Whoever waits for it hears so at once, and does not wait for the timeout.
        evicted = await waiting.answer()
        check_own_answer(evicted, 503, OVERLOADED, "upstream_unavailable", is_gated=True)
        assert "/health answers 503" in await reason_not_ready(stand)
        assert (await ask_once(stand.sluice.port, HEALTHZ)).status == 200
        refused = await ask_once(stand.sluice.port, request_bytes())
        check_own_answer(refused, 503, OVERLOADED, "upstream_unavailable", is_gated=True)
        # What runs may still finish.
        hold.release()
        assert (await running.answer()).status == 200
    stand.upstream.probes = healthy
    await until_ready(stand.sluice.port)
    assert (await ask_once(stand.sluice.port, request_bytes())).status == 200
    assert len(stand.upstream.seen) == 2


async def idles(stand: Stand) -> None:
    """No hot loop: a process that has nothing to do uses next to no processor time."""
    before = processor_seconds(stand.sluice.pid)
    await asyncio.sleep(1)
    assert processor_seconds(stand.sluice.pid) - before < 0.3


@on_the_stand
async def test_an_engine_that_fails_everything_fails_each_request_once(stand: Stand) -> None:
    """R66: those who wait are served its 500s one by one, as their turn comes; nothing spins."""
    hold = Hold(then=json_answer({"error": "engine dead"}, 500))
    stand.upstream.handler = hold
    with Burst(stand.sluice.port, 6) as burst:
        await burst.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 4)
        hold.release()
        answers = await burst.answers(6)
    assert [(answer.status, answer.body) for answer in answers] == [
        (500, b'{"error": "engine dead"}')
    ] * 6
    assert len(stand.upstream.seen) == 6
    assert stand.upstream.peak == 2
    await idles(stand)
    # Its health check is good, so it is in service; readiness does not guess from answers.
    assert (await ask_once(stand.sluice.port, READYZ)).status == 200
    stand.upstream.handler = json_answer()
    assert (await ask_once(stand.sluice.port, request_bytes())).status == 200
    assert await stand.outcomes() == {"upstream_error": 6, "ok": 1}


@on_the_stand
async def test_an_engine_that_is_killed_leaves_nobody_hanging_and_comes_back(stand: Stand) -> None:
    """R66: running requests break, waiting ones are told, and it is in service again on its own."""
    stand.upstream.handler = Hold()
    with Burst(stand.sluice.port, 6) as burst:
        await burst.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 4)
        stand.upstream.stop_listening()
        stand.upstream.reset_all()
        answers = await burst.answers(6, within_s=5)
    told = sorted(str(answer.header("x-sluice-reason")) for answer in answers)
    # Those who wait may be let in, and meet the dead engine, before its death is known.
    assert set(told) <= {"upstream_closed", "upstream_connect", "upstream_unavailable"}
    assert len(told) == 6
    await stand.sluice.until_metric("sluice_upstream_up", 0)
    assert "refused" in await reason_not_ready(stand)
    await idles(stand)
    stand.upstream.handler = json_answer()
    await stand.upstream.listen()
    await until_ready(stand.sluice.port)
    assert (await ask_once(stand.sluice.port, request_bytes())).status == 200


def test_a_gateway_that_starts_before_its_engine_waits_for_it_in_the_open() -> None:
    """R66: alive, not ready, with the reason; ready as soon as the engine is."""

    async def scenario() -> None:
        upstream = ScriptedUpstream()
        async with upstream:
            upstream.stop_listening()
            async with gateway(upstream.url, max_in_flight=1, wait_until_ready=False) as sluice:
                await sluice.until_metric("sluice_upstream_up", 0)
                assert (await ask_once(sluice.port, HEALTHZ)).status == 200
                answer: RawAnswer = await ask_once(sluice.admin_port, READYZ)
                assert answer.status == 503
                assert upstream.url in json.loads(answer.body)["reason"]
                refused = await ask_once(sluice.port, request_bytes())
                check_own_answer(refused, 503, OVERLOADED, "upstream_unavailable", is_gated=True)
                await upstream.listen()
                await until_ready(sluice.port)
                assert (await ask_once(sluice.port, request_bytes())).status == 200

    asyncio.run(scenario())
