"""The end of the process's life: what finishes, what is refused, what is cut off, and how it exits.

Field cases R09, R102, R104 and R108.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.burst import Burst
from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawAnswer, RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    json_answer,
    silent,
    sse_stream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERLOADED = "service_unavailable_error"
HEALTHZ = request_bytes("/healthz", b"", "GET")
READYZ = request_bytes("/readyz", b"", "GET")
STREAM = request_bytes("/v1/chat/completions", {"stream": True})


def now() -> float:
    return asyncio.get_running_loop().time()


async def seconds_to_exit(sluice: GatewayProcess, since: float, within_s: float = 15.0) -> float:
    async with asyncio.timeout(within_s):
        await sluice.process.wait()
    return now() - since


async def until_draining(sluice: GatewayProcess) -> None:
    await sluice.until_metric("sluice_draining", 1)


async def endless(exchange: Exchange) -> None:
    exchange.start_chunked()
    while True:
        exchange.chunk(b'data: {"n": 0}\n\n')
        await asyncio.sleep(0.05)


async def endless_json(exchange: Exchange) -> None:
    exchange.start_chunked(content_type="application/json")
    exchange.chunk(b'{"text": "')
    while True:
        exchange.chunk(b"x")
        await asyncio.sleep(0.05)


# The orderly end.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_running_streams_finish_and_the_endless_one_is_cut_off_at_the_limit(
    number: signal.Signals,
) -> None:
    """R102: three streams have 1.5 s left, one has no end, two clients are idle; grace 3 s."""

    async def scenario() -> None:
        finite = sse_stream(events=30, interval_s=0.05)
        async with (
            ScriptedUpstream(finite) as upstream,
            gateway(upstream.url, max_in_flight=4, drain_timeout=3) as sluice,
            contextlib.AsyncExitStack() as connections,
        ):

            async def client() -> RawClient:
                return await connections.enter_async_context(await RawClient.connect(sluice.port))

            idle = [await client() for _ in range(2)]
            assert (await idle[0].ask(HEALTHZ)).status == 200
            finishing = [await client() for _ in range(3)]
            for one in finishing:
                one.send(STREAM)
            await upstream.until(lambda: upstream.inflight == 3)
            upstream.handler = endless
            lasting = await client()
            lasting.send(STREAM)
            await lasting.chunk(await lasting.head())

            signalled = now()
            sluice.process.send_signal(number)
            answers = [await one.answer() for one in finishing]
            for answer in answers:
                assert answer.complete
                assert answer.body.endswith(b'data: {"n": 29}\n\ndata: [DONE]\n\n')
            assert sluice.exit_code is None, "it did not wait for the endless one"

            rest, _was_reset = await lasting.rest()
            assert b'"code":"draining"' in rest.splitlines()[-3]
            assert b"[DONE]" not in rest
            assert not rest.endswith(b"0\r\n\r\n"), "it looks complete on the wire"
            assert 2.9 <= await seconds_to_exit(sluice, signalled) < 5
            assert sluice.exit_code == 0
            await upstream.until(lambda: upstream.aborts == 1)
            for one in idle:
                assert await one.rest() == (b"", False)

    asyncio.run(scenario())


def test_a_body_that_is_no_event_stream_is_cut_off_without_last_words() -> None:
    """R102: nothing of ours gets into somebody's JSON; it just does not end."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(endless_json) as upstream,
            gateway(upstream.url, max_in_flight=1, drain_timeout=0.5) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            client.send(request_bytes())
            await client.chunk(await client.head())
            sluice.terminate()
            rest, _was_reset = await client.rest()
            assert b"draining" not in rest
            assert not rest.endswith(b"0\r\n\r\n")
            await sluice.process.wait()
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_those_who_wait_are_told_at_once_and_those_who_run_are_served() -> None:
    """R102: a waiter could still go elsewhere; it does not wait for the end to hear so."""

    async def scenario() -> None:
        hold = Hold()
        settings = {"max_in_flight": 1, "max_queue_depth": 3, "queue_timeout": 30}
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, **settings) as sluice,
            await RawClient.connect(sluice.port) as running,
        ):
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            with Burst(sluice.port, 3) as burst:
                await burst.send(request_bytes())
                await sluice.until_metric("sluice_queue_depth", 3)
                sluice.terminate()
                told = await burst.answers(3, within_s=5)
            for answer in told:
                check_own_answer(answer, 503, OVERLOADED, "draining", is_gated=True)
                assert answer.header("connection") == "close"
            assert len(told) == 3
            assert await sluice.metric("sluice_shed_total", reason="draining") == 3
            assert upstream.inflight == 1
            hold.release()
            served = await running.answer()
            assert (served.status, served.header("connection")) == (200, "close")
            await sluice.process.wait()
            assert len(upstream.seen) == 1
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_readiness_goes_first_and_liveness_stays() -> None:
    """R104: on both listeners, for connections that stand and for new ones."""

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, max_in_flight=1) as sluice,
            await RawClient.connect(sluice.port) as running,
            await RawClient.connect(sluice.port) as standing,
        ):
            assert (await standing.ask(READYZ)).status == 200
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            sluice.terminate()
            await until_draining(sluice)
            not_ready = await standing.ask(READYZ)
            assert not_ready.status == 503
            assert json.loads(not_ready.body)["reason"].startswith("draining")
            for port in (sluice.port, sluice.admin_port):
                assert (await ask_once(port, READYZ)).status == 503
                assert (await ask_once(port, HEALTHZ)).status == 200
            late = await ask_once(sluice.port, request_bytes())
            check_own_answer(late, 503, OVERLOADED, "draining", is_gated=True)
            hold.release()
            assert (await running.answer()).status == 200
            await sluice.process.wait()
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_an_upload_that_ends_after_the_signal_is_not_let_in() -> None:
    """R102: it ran, so it gets an answer; it never had a seat, so it gets none now."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=1) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            request = request_bytes(body={"prompt": "x" * 100_000})
            client.send(request[:-10])
            await sluice.until_metric("sluice_arrivals_total", 1)
            sluice.terminate()
            await until_draining(sluice)
            answer = await client.ask(request[-10:])
            check_own_answer(answer, 503, OVERLOADED, "draining", is_gated=True)
            assert upstream.seen == []
            await sluice.process.wait()
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_an_idle_gateway_ends_at_once() -> None:
    """R102: clients that only keep their connections open are no reason to wait."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=1, drain_timeout=60) as sluice,
        ):
            with Burst(sluice.port, 50) as burst:
                await burst.send(HEALTHZ)
                await burst.answers(50)
                signalled = now()
                sluice.terminate()
                assert await seconds_to_exit(sluice, signalled) < 3
            assert sluice.exit_code == 0
            await upstream.until(lambda: upstream.connections_open == 0)

    asyncio.run(scenario())


def test_no_grace_means_no_grace() -> None:
    """R102: a drain timeout of 0."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, max_in_flight=1, drain_timeout=0) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            client.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            signalled = now()
            sluice.terminate()
            answer = await client.answer()
            check_own_answer(answer, 503, OVERLOADED, "draining", is_gated=True)
            assert await seconds_to_exit(sluice, signalled) < 3
            await upstream.until(lambda: upstream.aborts == 1)
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_a_gateway_without_an_engine_can_be_stopped() -> None:
    """R102: in the middle of asking for one."""

    async def scenario() -> None:
        upstream = ScriptedUpstream()
        upstream.probes = {b"/health": silent}
        async with (
            upstream,
            gateway(upstream.url, max_in_flight=1, wait_until_ready=False) as sluice,
        ):
            await upstream.until(lambda: len(upstream.probed) == 1)
            signalled = now()
            sluice.terminate()
            assert await seconds_to_exit(sluice, signalled) < 3
        assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_two_generations_together_hold_at_most_both_limits() -> None:
    """R84: a rolling restart. The old one takes nothing new while its last requests finish, so the
    engine has at most twice the limit, and each request is served by one of the two.
    """

    async def scenario() -> None:
        hold = Hold()
        settings = {"max_in_flight": 2, "max_queue_depth": 4, "queue_timeout": 30}
        async with ScriptedUpstream(hold) as upstream, gateway(upstream.url, **settings) as old:
            with Burst(old.port, 6) as before:
                await before.send(request_bytes())
                await old.until_metric("sluice_queue_depth", 4)
                async with gateway(upstream.url, **settings) as new:
                    old.terminate()
                    sent_away = await before.answers(4, within_s=5)
                    assert {one.header("x-sluice-reason") for one in sent_away} == {"draining"}
                    with Burst(new.port, 6) as after:
                        await after.send(request_bytes())
                        await new.until_metric("sluice_queue_depth", 4)
                        await upstream.until(lambda: upstream.inflight == 4)
                        hold.release()
                        answers = [*await before.answers(2), *await after.answers(6)]
                    assert [answer.status for answer in answers] == [200] * 8
                    await old.process.wait()
                    assert old.exit_code == 0
            assert upstream.peak == 4

    asyncio.run(scenario())


# Nothing stays behind.

TROUBLE = ("Traceback", "unclosed", "was destroyed", "never retrieved", "never awaited", "Warning")


@pytest.mark.parametrize("client", ["pool", "httpx"])
def test_a_forced_end_cleans_up_all_the_same(client: str) -> None:
    """R108: in development mode, in which Python tells of everything that was not closed."""

    async def scenario() -> list[str]:
        settings = {"max_in_flight": 8, "drain_timeout": 0.3, "upstream_client": client}
        async with (
            ScriptedUpstream(endless) as upstream,
            gateway(upstream.url, environment={"PYTHONDEVMODE": "1"}, **settings) as sluice,
        ):
            with Burst(sluice.port, 12) as burst:
                await burst.send(STREAM)
                await upstream.until(lambda: upstream.inflight == 8)
                await sluice.until_metric("sluice_queue_depth", 4)
                sluice.terminate()
                await sluice.process.wait()
                await upstream.until(lambda: upstream.aborts == 8)
                await upstream.until(lambda: upstream.connections_open == 0)
        assert sluice.exit_code == 0
        return sluice.log

    log = asyncio.run(scenario())
    assert [line for line in log if any(word in line for word in TROUBLE)] == []


def test_a_crowd_that_leaves_just_before_the_signal_is_no_obstacle() -> None:
    """R09: a hundred resets, and the signal 5 ms later."""

    async def scenario() -> None:
        settings = {"max_in_flight": 50, "max_queue_depth": 50, "drain_timeout": 20}
        async with (
            ScriptedUpstream(endless) as upstream,
            gateway(upstream.url, **settings) as sluice,
        ):
            clients = [await RawClient.connect(sluice.port) for _ in range(100)]
            for client in clients:
                client.send(STREAM)
            await sluice.until_metric("sluice_queue_depth", 50)
            for client in clients:
                client.reset()
            await asyncio.sleep(0.005)
            signalled = now()
            sluice.terminate()
            assert await seconds_to_exit(sluice, signalled) < 5
            assert sluice.exit_code == 0
            await upstream.until(lambda: upstream.inflight == 0)

    asyncio.run(scenario())


def test_the_last_lines_are_written(tmp_path: Path) -> None:
    """R108: log and trace of requests that ended with the process."""
    trace = tmp_path / "trace.jsonl"

    async def scenario() -> list[str]:
        settings = {"max_in_flight": 20, "drain_timeout": 0.1, "trace_file": trace}
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, **settings) as sluice,
        ):
            with Burst(sluice.port, 30) as burst:
                await burst.send(request_bytes())
                await sluice.until_metric("sluice_queue_depth", 10)
                sluice.terminate()
                answers: list[RawAnswer] = await burst.answers(30)
                assert {answer.header("x-sluice-reason") for answer in answers} == {"draining"}
                await sluice.process.wait()
        return sluice.log

    log = [json.loads(line) for line in asyncio.run(scenario())]
    assert [line["reason"] for line in log if line["logger"] == "access"] == ["draining"] * 30
    assert len(trace.read_text().splitlines()) == 30


# The end at once.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_it_on_the_spot(number: signal.Signals) -> None:
    """R102: with the status that whoever sent it expects, and the engine is rid of its requests."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(endless) as upstream,
            gateway(upstream.url, max_in_flight=1, drain_timeout=60) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            client.send(STREAM)
            await client.chunk(await client.head())
            sluice.terminate()
            await until_draining(sluice)
            signalled = now()
            sluice.process.send_signal(number)
            assert await seconds_to_exit(sluice, signalled) < 2
            assert sluice.exit_code == -number
            await upstream.until(lambda: upstream.aborts == 1)

    asyncio.run(scenario())


def _in_new_pid_namespace() -> Sequence[str]:
    """A command that makes another one process 1; empty where the machine does not allow it."""
    unshare = shutil.which("unshare")
    for rights in ((), ("--user", "--map-root-user")):
        command = (unshare or "", "--pid", "--fork", "--kill-child", *rights)
        if unshare and subprocess.run([*command, "true"], check=False).returncode == 0:  # noqa: S603
            return command
    return ()


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def test_as_process_1_of_a_container_it_obeys_both_signals() -> None:
    """R102: the kernel gives process 1 no default actions, so that none may be relied on."""
    container = _in_new_pid_namespace()
    if not container:
        # Some CI runners forbid them, as .ci/allowed-skips.txt says.
        pytest.skip("this machine allows no process id namespaces")

    async def scenario() -> None:
        async with ScriptedUpstream(endless) as upstream:
            settings = {"max_in_flight": 1, "drain_timeout": 60}
            async with gateway(upstream.url, run_by=container, **settings) as sluice:
                process_1 = _only_child(sluice.pid)
                async with await RawClient.connect(sluice.port) as client:
                    client.send(STREAM)
                    await client.chunk(await client.head())
                    os.kill(process_1, signal.SIGTERM)
                    await until_draining(sluice)
                    signalled = now()
                    os.kill(process_1, signal.SIGTERM)
                    assert await seconds_to_exit(sluice, signalled) < 2
                    assert sluice.exit_code == 128 + signal.SIGTERM
            upstream.handler = json_answer()
            async with gateway(upstream.url, run_by=container, **settings) as sluice:
                os.kill(_only_child(sluice.pid), signal.SIGTERM)
                await sluice.process.wait()
                assert sluice.exit_code == 0

    asyncio.run(scenario())
