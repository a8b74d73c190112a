"""Connections to the engine and to clients: reused, bounded, never the hidden limit.

Field cases R31 to R33 and R36 to R39. How the two upstream clients do it is tested in
tests/conformance; here it is the whole gateway, its limits and its descriptors. R40, speed, is for
tests/bench.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import eventually, gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.process_sockets import in_time_wait_towards
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    DEFAULT_PROBES,
    Hold,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
)

if TYPE_CHECKING:
    from tests.support.gateway_process import GatewayProcess
    from tests.support.scripted_answers import Handler
    from tests.support.scripted_upstream import Exchange

UPSTREAM_CLIENTS = ["pool", "httpx"]
MODELS = request_bytes("/v1/models", b"", "GET")


def now() -> float:
    return asyncio.get_running_loop().time()


# The keep-alive race (R31).


@pytest.mark.alone("pauses that are right to a few milliseconds")
@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_an_engine_that_closes_idle_connections_costs_no_request(upstream_client: str) -> None:
    """R31: four at a time, spaced by what the engine waits and less or a little more."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(idle_close_s=0.05) as upstream,
            gateway(upstream.url, max_in_flight=4, upstream_client=upstream_client) as sluice,
        ):
            clients = [await RawClient.connect(sluice.port) for _ in range(4)]
            statuses: Counter[int] = Counter()
            for number in range(80):
                for client in clients:
                    client.send(request_bytes(headers={"x-client-id": f"r{number}"}))
                answers = await asyncio.gather(*(client.answer() for client in clients))
                statuses.update(answer.status for answer in answers)
                await asyncio.sleep(0.020 + 0.035 * number / 80)
            assert statuses == {200: 320}
            asked = Counter(request.client_id for request in upstream.seen)
            assert max(asked.values()) <= 2 * 4, "sent once more at most"
            fresh = upstream.connections_accepted
            assert 20 < fresh < 320, "some were reused, and some had been closed"
            for client in clients:
                client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_an_engine_that_closes_after_its_answers_costs_no_request(upstream_client: str) -> None:
    """R31: within 2 ms, and without having said so."""

    async def scenario() -> None:
        rng = random.Random(31)

        async def answer_and_close(exchange: Exchange) -> None:
            exchange.respond(b'{"ok": true}')
            asyncio.get_running_loop().call_later(rng.uniform(0, 0.002), exchange.close)

        async with (
            ScriptedUpstream(answer_and_close) as upstream,
            gateway(upstream.url, max_in_flight=1, upstream_client=upstream_client) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            for _ in range(200):
                assert (await client.ask(request_bytes())).status == 200
                await asyncio.sleep(rng.uniform(0, 0.002))

    asyncio.run(scenario())


async def close_in_the_head(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 200 OK\r\ncontent-")
    exchange.close()


async def close_after_the_head(exchange: Exchange) -> None:
    exchange.send(b"HTTP/1.1 502 Bad\r\ncontent-length: 10\r\n\r\n")
    exchange.close()


@pytest.mark.parametrize(
    ("upstream_client", "handler", "times"),
    [
        ("pool", close_on_receipt, 2),
        ("pool", close_in_the_head, 1),
        ("pool", close_after_the_head, 1),
        ("httpx", close_on_receipt, 2),
        ("httpx", close_after_the_head, 1),
    ],
)
def test_a_request_is_sent_again_only_if_a_reused_connection_died_unanswered(
    upstream_client: str, handler: Handler, times: int
) -> None:
    """R31: once, on a fresh connection; a POST may have been acted upon."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=2, upstream_client=upstream_client) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            upstream.handler = close_on_receipt
            assert (await client.ask(request_bytes())).status == 502
            assert len(upstream.seen) == 1, "the connection was fresh"

            upstream.handler = json_answer()
            assert (await client.ask(request_bytes())).status == 200
            await sluice.until_idle()
            upstream.forget()
            upstream.handler = handler
            assert (await client.ask(request_bytes())).status == 502
            assert len(upstream.seen) == times
            await probe_capacity(sluice, upstream, 2)

    asyncio.run(scenario())


# The pool is not a limit (R32, R33, R36).


@pytest.mark.alone("so many aborts in so many seconds")
@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_a_burst_of_aborts_costs_no_connection(upstream_client: str) -> None:
    """R32: four times what the seats hold, with open routes between, for 3 s."""

    async def scenario() -> None:
        rng = random.Random(32)

        async def answer(exchange: Exchange) -> None:
            await asyncio.sleep(rng.uniform(0, 0.01))
            exchange.respond(b'{"ok": true}')

        async def leave_again_and_again(port: int, until: float) -> None:
            while now() < until:
                async with await RawClient.connect(port) as client:
                    client.send(rng.choice([request_bytes(), MODELS]))
                    await asyncio.sleep(rng.uniform(0, 0.01))
                    client.reset()

        async with (
            ScriptedUpstream(answer) as upstream,
            gateway(
                upstream.url, max_in_flight=10, max_queue_depth=50, upstream_client=upstream_client
            ) as sluice,
        ):
            until = now() + 3
            await asyncio.gather(*(leave_again_and_again(sluice.port, until) for _ in range(40)))
            # On a busy machine connections that were reset long ago still wait to be accepted, at
            # the gateway and behind it at the engine. Who asks now is answered after them, and
            # refused while they fill the queue.
            for _ in range(2):
                while (answered := await ask_once(sluice.port, request_bytes())).status != 200:
                    assert answered.header("x-sluice-reason") == "queue_full"
                    assert now() < until + 30
                    await asyncio.sleep(0.05)
                await sluice.until_idle(10)
                await upstream.until(lambda: upstream.inflight == 0)
            assert upstream.aborts > 50, "not the case that was meant"
            upstream.forget()
            asking = (ask_once(sluice.port, request_bytes()) for _ in range(50))
            assert {answer.status for answer in await asyncio.gather(*asking)} == {200}
            assert 5 < upstream.peak <= 10
            assert sluice.sockets_towards(upstream.port) <= 10 + 40, "seats and open routes"
            await probe_capacity(sluice, upstream, 10)

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_the_seats_are_the_only_limit(upstream_client: str) -> None:
    """R33: 300 at once, where HTTP clients stop at 100 by default; open routes come on top."""

    async def scenario() -> None:
        hold = Hold()

        async def hold_but_list_models(exchange: Exchange) -> None:
            if exchange.request.path == b"/v1/models":
                exchange.respond(b'{"data": []}')
            else:
                await hold(exchange)

        async with (
            ScriptedUpstream(hold_but_list_models) as upstream,
            gateway(upstream.url, max_in_flight=300, upstream_client=upstream_client) as sluice,
        ):
            clients = [await RawClient.connect(sluice.port) for _ in range(300)]
            for client in clients:
                client.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 300)
            assert (await ask_once(sluice.port, MODELS)).status == 200
            hold.release()
            for client in clients:
                assert (await client.answer()).status == 200
                client.close()

    asyncio.run(scenario())


def test_a_second_wave_uses_the_connections_of_the_first() -> None:
    """R33"""

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, max_in_flight=300) as sluice,
        ):
            clients = [await RawClient.connect(sluice.port) for _ in range(300)]
            for _ in range(2):
                hold.hold_again()
                for client in clients:
                    client.send(request_bytes())
                await upstream.until(lambda: upstream.inflight == 300)
                hold.release()
                for client in clients:
                    assert (await client.answer()).status == 200
            assert upstream.connections_accepted < 330
            for client in clients:
                client.close()

    asyncio.run(scenario())


@pytest.mark.timeout(60)
def test_many_short_requests_leave_few_closed_connections_behind() -> None:
    """R36: with a connection for each, the machine runs out of ports in a minute."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=50, max_queue_depth=50) as sluice,
        ):

            async def ask_again_and_again() -> None:
                async with await RawClient.connect(sluice.port) as client:
                    for _ in range(50):
                        assert (await client.ask(request_bytes())).status == 200

            await asyncio.gather(*(ask_again_and_again() for _ in range(100)))
            assert len(upstream.seen) == 5_000
            # The health checks make connections, too: two a second.
            assert upstream.connections_accepted < 0.05 * 5_000
            assert in_time_wait_towards(upstream.port) < 2 * 50

    asyncio.run(scenario())


# Descriptors and the environment (R37, R39).

FEW_DESCRIPTORS = 256


def allow_few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, FEW_DESCRIPTORS))


async def answers_soon(sluice: GatewayProcess, within_s: float = 2) -> None:
    async with asyncio.timeout(within_s):
        while True:
            try:
                answer = await ask_once(sluice.port, request_bytes("/healthz", b"", "GET"))
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.02)
            else:
                assert answer.status == 200
                return


def cpu_seconds(pid: int) -> float:
    """Taken by a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_running_out_of_descriptors_is_warned_of_and_survived() -> None:
    """R37: 400 connections where 256 descriptors are allowed, and nobody has bounded them. What
    cannot be accepted is not tried again and again."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url,
                max_in_flight=30,
                max_queue_depth=200,
                queue_timeout=15,
                max_connections=100_000,
                preexec=allow_few_descriptors,
            ) as sluice,
        ):
            warning = f"only {FEW_DESCRIPTORS} open files"
            await eventually(lambda: any(warning in line for line in sluice.log))
            upstream.handler = hold = Hold()
            working = [await RawClient.connect(sluice.port) for _ in range(60)]
            for client in working:
                client.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 30)
            await sluice.until_metric("sluice_queue_depth", 30)
            idle = [await RawClient.connect(sluice.port) for _ in range(340)]
            before_s = cpu_seconds(sluice.pid)
            await asyncio.sleep(
                2.5
            )  # health checks fail meanwhile, which is not the engine's fault
            assert cpu_seconds(sluice.pid) - before_s < 1, "it spins"
            assert sluice.open_descriptors() > FEW_DESCRIPTORS - 5, "not the case that was meant"

            assert upstream.inflight == 30
            for client in idle:
                client.close()
            await answers_soon(sluice)
            hold.release()
            for client in working:
                assert (await client.answer()).status == 200
                client.close()
            assert len(sluice.log) < 300
            await probe_capacity(sluice, upstream, 30)

    asyncio.run(scenario())


def test_connections_leave_the_descriptors_that_engines_and_operators_need() -> None:
    """R37: the same crowd, with the bound that follows from what is allowed."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=30, preexec=allow_few_descriptors) as sluice,
        ):
            crowd = [await RawClient.connect(sluice.port) for _ in range(400)]
            # Each may need one to an engine too, and 63 and the admin listener's are not theirs.
            let_in = FEW_DESCRIPTORS // 4
            await sluice.until_metric("sluice_connections_refused_total", 400 - let_in)
            assert sluice.open_descriptors() < FEW_DESCRIPTORS - 30

            upstream.handler = hold = Hold()
            for client in crowd[:30]:
                client.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 30)
            hold.release()
            answers = [await client.answer() for client in crowd[:30]]
            assert {answer.status for answer in answers} == {200}
            await answers_soon(sluice, 5)  # those who were over the bound and silent are gone
            surplus = await ask_once(sluice.port, request_bytes())
            check_own_answer(surplus, 503, "service_unavailable_error", "too_many_connections")
            for client in crowd:
                client.close()
            await probe_capacity(sluice, upstream, 30)

    asyncio.run(scenario())


def serving(model: str) -> ScriptedUpstream:
    """An engine that says which model it has."""
    listed = json_answer({"object": "list", "data": [{"id": model, "object": "model"}]})
    return ScriptedUpstream(probes={**DEFAULT_PROBES, b"/v1/models": listed})


def test_connections_that_are_kept_to_one_engine_are_given_up_for_another() -> None:
    """R37: 60 users of four models, all of one after the other, where 256 descriptors are allowed:
    kept connections to the first two would hold what the third needs."""

    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            models = [f"model-{number}" for number in range(4)]
            engines = [await stack.enter_async_context(serving(model)) for model in models]
            urls = ",".join(engine.url for engine in engines)
            sluice = await stack.enter_async_context(
                gateway(urls, max_in_flight=60, preexec=allow_few_descriptors)
            )
            users = [await RawClient.connect(sluice.port) for _ in range(60)]
            for model, engine in 2 * list(zip(models, engines, strict=True)):
                engine.handler = hold = Hold()
                for user in users:
                    user.send(request_bytes(body={"model": model}))
                await engine.until(lambda engine=engine: engine.inflight == 60)
                hold.release()
                answers = [await user.answer() for user in users]
                assert {answer.status for answer in answers} == {200}
            opened = sum(engine.connections_accepted for engine in engines)
            assert opened > 5 * 60, "not the case that was meant"
            for user in users:
                user.close()

    asyncio.run(scenario())


def test_one_address_cannot_take_all_connections() -> None:
    """Whatever it says of itself: only the connection's own other end counts."""

    async def scenario() -> None:
        spoofed = {"X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"}
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=2, max_connections_per_address=5) as sluice,
        ):
            crowd = [await RawClient.connect(sluice.port) for _ in range(5)]
            assert (await crowd[4].ask(request_bytes())).status == 200
            surplus = await ask_once(sluice.port, request_bytes(headers=spoofed))
            check_own_answer(surplus, 429, "rate_limit_error", "too_many_connections")
            other = await asyncio.open_connection(
                "127.0.0.1", sluice.port, local_addr=("127.0.0.2", 0)
            )
            async with RawClient(*other) as elsewhere:
                assert (await elsewhere.ask(request_bytes())).status == 200
            refused = "sluice_connections_refused_total"
            assert await sluice.metric(refused, bound="per_address") == 1
            assert len(upstream.seen) == 2
            for client in crowd:
                client.close()
            await probe_capacity(sluice, upstream, 2)

    asyncio.run(scenario())


PROXY_VARIABLES = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "socks5://127.0.0.1:9",
    "NO_PROXY": "10.0.0.0/8,[::1]",
}


@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_proxy_variables_do_not_lead_astray(upstream_client: str) -> None:
    """R39: neither requests nor health checks."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url,
                environment=PROXY_VARIABLES,
                max_in_flight=1,
                upstream_client=upstream_client,
            ) as sluice,
        ):
            assert (await ask_once(sluice.port, request_bytes())).status == 200
            assert len(upstream.seen) == 1

    asyncio.run(scenario())
