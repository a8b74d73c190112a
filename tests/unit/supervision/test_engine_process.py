"""An engine's process as the event loop sees it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from proxy.supervision.engine_process import EngineProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

POLITE = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.01; done"


def with_engine(script: str, then: Callable[[EngineProcess, list[bytes]], Awaitable[None]]) -> None:
    async def scenario() -> None:
        blocks: list[bytes] = []
        ready = asyncio.Event()

        def take(block: bytes) -> None:
            blocks.append(block)
            ready.set()

        engine = await EngineProcess.start(["sh", "-c", script], os.environ, take)
        await ready.wait()
        await then(engine, blocks)

    asyncio.run(scenario())


def test_all_that_it_wrote_is_there_when_it_has_ended() -> None:
    async def then(engine: EngineProcess, blocks: list[bytes]) -> None:
        assert await engine.ended() == 5
        assert b"".join(blocks) == b"out\nerr\n" + b"x" * 300_000

    long = "head -c 300000 /dev/zero | tr '\\0' x"
    with_engine(f"echo out; echo err >&2; {long}; exit 5", then)


def test_it_is_stopped_in_its_time() -> None:
    async def then(engine: EngineProcess, blocks: list[bytes]) -> None:
        assert await engine.stop(10.0) == 7
        assert b"".join(blocks) == b"ready\nbye\n"

    with_engine(POLITE, then)


def test_after_its_time_it_is_killed() -> None:
    async def then(engine: EngineProcess, _blocks: list[bytes]) -> None:
        assert await engine.stop(0.05) == 137

    with_engine(DEAF, then)


def test_to_stop_what_has_ended_does_nothing() -> None:
    async def then(engine: EngineProcess, _blocks: list[bytes]) -> None:
        assert await engine.ended() == 0
        assert await engine.stop(1.0) == 0
        engine.leave()

    with_engine("echo ready", then)


def test_who_waited_and_was_cancelled_can_ask_again() -> None:
    async def then(engine: EngineProcess, _blocks: list[bytes]) -> None:
        waiting = asyncio.create_task(engine.ended())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await engine.stop(10.0) == 7

    with_engine(POLITE, then)


def test_when_its_keeper_is_killed_it_counts_as_killed_and_none_of_it_is_left() -> None:
    async def then(engine: EngineProcess, blocks: list[bytes]) -> None:
        while b"".join(blocks).count(b"ready") < 2:
            await asyncio.sleep(0.01)
        os.kill(engine._process.pid, signal.SIGKILL)
        assert await engine.ended() == 137
        assert engine._output.ended.is_set()  # nobody is left who could write

    with_engine(f'sh -c "{DEAF}" & {DEAF}', then)
