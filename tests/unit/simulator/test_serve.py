from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy.simulator.faults import Die, ResetStreams, TimedFault
from proxy.simulator.log_lines import LogLine
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.serve import PortTakenError, bind, print_log_line, serve_simulator
from proxy.simulator.step_cost import StepCost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FAST = StepCost(speed=50.0)
ASK = {"prompt": "hello", "max_tokens": 3}
LONG = {"prompt": "hello", "max_tokens": 4000, "ignore_eos": True}


def served(
    use: Callable[[httpx.AsyncClient], Awaitable[None]], options: SimulatorOptions
) -> list[str]:
    """Serves on a real socket while `use` has a client of it; gives the log."""

    async def scenario() -> list[str]:
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        lines: list[LogLine] = []
        serving = asyncio.ensure_future(
            serve_simulator(options, "127.0.0.1", 0, url.set_result, lines.append)
        )
        try:
            async with httpx.AsyncClient(base_url=await url, trust_env=False) as client:
                await use(client)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
        return [line.text for line in lines]

    return asyncio.run(scenario())


def test_it_serves_and_logs_where() -> None:
    urls = []

    async def use(client: httpx.AsyncClient) -> None:
        urls.append(str(client.base_url))
        answer = await client.post("/v1/completions", json=ASK)
        assert answer.status_code == 200
        assert answer.headers["server"] == "uvicorn"
        assert json.loads(answer.content)["usage"]["completion_tokens"] == 3

    log = served(use, SimulatorOptions(cost=FAST))
    assert f"Starting vLLM server on {urls[0]}" in log
    assert "Application startup complete." in log


def test_a_closed_connection_is_an_abort() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        async with client.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as answer:
            async for _ in answer.aiter_bytes():
                break
        for _ in range(100):
            page = (await client.get("/metrics")).text
            if "sluice_sim_aborted_total 1" in page:
                return
            await asyncio.sleep(0.01)
        pytest.fail("never aborted")

    served(use, SimulatorOptions(cost=FAST))


def test_a_reset_stream_is_incomplete_on_the_wire() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/v1/completions", json=LONG | {"stream": True})

    served(use, SimulatorOptions(cost=FAST, faults=(TimedFault(ResetStreams(5)),)))


def test_it_stops_listening_once_its_death_was_answered() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/completions", json=ASK)
        assert answer.status_code == 500
        for _ in range(200):
            try:
                await client.get("/health")
            except httpx.ConnectError:
                return
            except httpx.TransportError:  # taken, and cut off: one that came as it stopped
                continue
            await asyncio.sleep(0.02)
        pytest.fail("still listening")

    log = served(use, SimulatorOptions(faults=(TimedFault(Die()),)))
    assert any("EngineDeadError" in line for line in log)


def test_a_signal_ends_it_with_its_answers_cut_short() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        asked = asyncio.ensure_future(client.post("/v1/completions", json=LONG))
        while (
            'vllm:num_requests_running{engine="0",model_name="simulated"} 1'
            not in (await client.get("/metrics")).text
        ):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        answer = await asked
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["finish_reason"] == "abort"

    served(use, SimulatorOptions(cost=FAST))


def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError) as error:
            bind("127.0.0.1", port)
    assert str(error.value) == f"cannot listen on 127.0.0.1 port {port}: address already in use"


def test_a_host_that_is_not_here_is_told_too() -> None:
    with pytest.raises(PortTakenError, match=r"cannot listen on 192\.0\.2\.99 port 1234: "):
        bind("192.0.2.99", 1234)


def test_log_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_log_line(LogLine("APIServer", "INFO", "entry.py:140", "Starting"))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.endswith("[entry.py:140] Starting\n")
