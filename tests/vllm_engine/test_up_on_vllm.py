"""`sluice up` with the real vLLM: what it reads of its start, and that nothing of it is left
however it ends."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path

import pytest

from proxy.supervision.keeper import _descendants
from tests.support.engine_process import MAX_MODEL_LEN, MAX_NUM_SEQS
from tests.support.engine_requests import completion
from tests.support.gateway_process import GatewayProcess, eventually, gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.real_vllm import STARTING_TIMEOUT_S, installed_vllm
from tests.support.vllm_launch import vllm_command, vllm_environment

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S)]

SIZES = ("--max-num-seqs", str(MAX_NUM_SEQS), "--max-model-len", str(MAX_MODEL_LEN))


def launch() -> tuple[str, tuple[str, ...]]:
    """The command and its arguments, with the address where clients are to ask."""
    home = installed_vllm()
    core = min(os.sched_getaffinity(0))
    variables = [f"{name}={value}" for name, value in vllm_environment(home, core).items()]
    python, _, module, *arguments = vllm_command(home, 0, *SIZES)
    command = ("env", "-i", *variables, "taskset", "-c", str(core), python, "-m", module)
    return shlex.join(command), tuple(arguments)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def gone(pids: list[int]) -> None:
    def none_is_left() -> bool:
        return not any(map(is_running, pids))

    await eventually(none_is_left, 15.0)


async def logged(sluice: GatewayProcess, words: str, within_s: float) -> None:
    def is_logged() -> bool:
        return any(words in line for line in sluice.log)

    await eventually(is_logged, within_s)


def test_it_serves_is_seen_to_die_and_leaves_nothing_behind() -> None:
    command, arguments = launch()
    options = ("--command", command, "--first-delay", "0", "--", *arguments)

    async def scenario() -> None:
        running = gateway(
            None, *options, command="up", wait_until_ready=False, log_format="console"
        )
        async with running as sluice:
            await logged(sluice, "the engine is up after ", STARTING_TIMEOUT_S - 60)
            assert any(
                "its KV cache holds 1,048,576 tokens, 512 requests of 2,048 tokens" in line
                for line in sluice.log
            )
            served = await ask_once(sluice.port, request_bytes(body=completion(3)))
            assert served.status == 200

            first = _descendants(sluice.pid)
            (core,) = (pid for pid in first if name_of(pid).startswith("VLLM::EngineCor"))
            os.kill(core, signal.SIGKILL)
            await logged(sluice, "the engine died after ", 30.0)
            await logged(sluice, "starting the engine (start 2)", 10.0)
            await gone(first)

            def has_begun_again() -> bool:
                return any(name_of(pid) == "python" for pid in _descendants(sluice.pid)[1:])

            await eventually(has_begun_again, 10.0)
            second = _descendants(sluice.pid)
            sluice.process.kill()
            await sluice.process.wait()
            await gone(second)

    asyncio.run(scenario())
