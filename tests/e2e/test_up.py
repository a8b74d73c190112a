"""`sluice up` as a user runs it, with the simulated engine: how both start, live, die and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.supervision.keeper import _descendants
from tests.support.doctor_logs import LOADED
from tests.support.gateway_process import GatewayProcess, eventually, gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawClient, ask_once, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its promises are for Linux")

SIM = shlex.join([sys.executable, "-m", "proxy", "sim"])
SMALL = ("--max-num-seqs", "8", "--kv-cache-tokens", "32768", "--step-ms", "5")
NO_ROOM = (
    *LOADED,
    "ERROR 05-20 12:00:10 [core.py:1] EngineCore failed to start.",
    "ValueError: No available memory for the cache blocks.",
)
OVERLOADED = "service_unavailable_error"
READYZ = request_bytes("/readyz", b"", "GET")
SHORT = request_bytes("/v1/completions", {"prompt": "hi", "max_tokens": 2})


@contextlib.asynccontextmanager
async def up(
    *arguments: str, command: str = SIM, ready: bool = True
) -> AsyncIterator[GatewayProcess]:
    """`arguments` are the engine's. Whatever happens, nothing is left of it in the end."""
    told = ("--command", command, "--first-delay", "0.05", "--give-up-after", "3")
    running = gateway(
        None, *told, "--", *arguments, command="up", wait_until_ready=ready, log_format="console"
    )
    seen: set[int] = set()
    async with running as sluice:
        try:
            yield sluice
        finally:
            seen.update(_descendants(sluice.pid))
    await gone(seen)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def gone(pids: set[int], within_s: float = 5.0) -> None:
    def none_is_left() -> bool:
        return not any(map(is_running, pids))

    await eventually(none_is_left, within_s)


def processes(sluice: GatewayProcess) -> tuple[int, int]:
    """The keeper's and the engine's first."""
    keeper, engine, *_ = _descendants(sluice.pid)
    return keeper, engine


async def logged(sluice: GatewayProcess, words: str, times: int = 1) -> None:
    def is_logged() -> bool:
        return sum(words in line for line in sluice.log) >= times

    await eventually(is_logged, 10.0)


async def serves(sluice: GatewayProcess) -> None:
    """Refused or served, until it is served."""
    async with asyncio.timeout(10.0):
        while (await ask_once(sluice.port, SHORT)).status != 200:
            await asyncio.sleep(0.05)


def test_requests_are_refused_in_good_form_until_the_engine_is_up_and_then_served() -> None:
    async def scenario() -> None:
        late = f"sh -c 'sleep 0.3; exec {SIM} \"$@\"' sh"
        async with up(*SMALL, command=late, ready=False) as sluice:
            assert (await ask_once(sluice.port, READYZ)).status == 503
            refused = await ask_once(sluice.port, SHORT)
            check_own_answer(refused, 503, OVERLOADED, "upstream_unavailable", is_gated=True)
            await serves(sluice)
            await logged(sluice, "the engine is up after ")
            assert any("its KV cache holds 32,768 tokens, 4 requests" in x for x in sluice.log)
            assert any(line.startswith("vllm | ") for line in sluice.log)
            assert any("SLUICE_MAX_IN_FLIGHT=7 " in line for line in sluice.log)

            # The end, in good order: what runs is finished first.
            async with await RawClient.connect(sluice.port) as client:
                client.send(
                    request_bytes(
                        "/v1/completions", {"prompt": "hi", "max_tokens": 60, "ignore_eos": True}
                    )
                )
                await sluice.until_metric("sluice_in_flight", 1)
                sluice.terminate()
                answer = await client.answer()
            assert (answer.status, answer.complete) == (200, True)
            await sluice.process.wait()
        assert sluice.exit_code == 0
        assert sluice.log[-1].endswith("the engine has ended")

    asyncio.run(scenario())


def test_an_engine_that_dies_is_diagnosed_and_replaced_and_none_is_left_whatever_happens() -> None:
    async def scenario() -> None:
        async with up(*SMALL, "--fault", "oom:1000") as sluice:
            _, first = processes(sluice)
            os.kill(first, signal.SIGKILL)
            await logged(sluice, "with exit code 137")
            await serves(sluice)
            assert processes(sluice)[1] != first

            long = {"prompt": [7] * 3000, "max_tokens": 2}
            await ask_once(sluice.port, request_bytes("/v1/completions", long))
            await logged(sluice, "OUT OF MEMORY: ")
            await logged(sluice, "torch.OutOfMemoryError: CUDA out of memory", 2)
            await logged(sluice, "What to do, in this order")
            await serves(sluice)
            assert (await ask_once(sluice.port, READYZ)).status == 200

            # Killed itself, it leaves no process.
            left = set(_descendants(sluice.pid))
            assert len(left) >= 2
            sluice.process.kill()
            await sluice.process.wait()
            await gone(left)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("script", "why", "code"),
    [
        ("exit 9", "it died 3 times in a row", 4),
        ("cat {log}; exit 1", "it ran out of memory at the same point of its start twice", 3),
    ],
    ids=["a crash loop", "no memory at the start"],
)
def test_it_gives_up_with_a_reason_and_an_exit_code_that_tells(
    script: str, why: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("\n".join(NO_ROOM))

    async def scenario() -> None:
        command = f"sh -c '{script.format(log=tmp_path / 'log')}' sh"
        async with up(command=command, ready=False) as sluice:
            async with asyncio.timeout(10.0):
                await sluice.process.wait()
        assert sluice.exit_code == code
        assert any(f"giving up, {why}" in line for line in sluice.log)
        if code == 3:
            assert any(line.startswith("OUT OF MEMORY: ") for line in sluice.log)
            assert any("to try first: " in line for line in sluice.log)

    asyncio.run(scenario())


def test_a_second_signal_ends_both_at_once() -> None:
    async def scenario() -> None:
        async with up(*SMALL) as sluice:
            left = set(_descendants(sluice.pid))
            async with await RawClient.connect(sluice.port) as client:
                endless = {"prompt": "hi", "max_tokens": 4000, "ignore_eos": True}
                client.send(request_bytes("/v1/completions", endless))
                await sluice.until_metric("sluice_in_flight", 1)
                sluice.terminate()
                await sluice.until_metric("sluice_draining", 1)
                sluice.terminate()
                await sluice.process.wait()
                await gone(left)
        assert sluice.exit_code == -signal.SIGTERM

    asyncio.run(scenario())
