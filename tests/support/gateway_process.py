"""`sluice serve` as a process of its own, as a user runs it.

async with gateway(upstream.url, max_in_flight=2) as sluice:
    ...                     # sluice.url, sluice.admin_url, await sluice.metrics()
assert sluice.exit_code == 0
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.metrics_page import samples, samples_of
from tests.support.process_sockets import open_descriptors, sockets_towards
from tests.support.raw_client import ask_once, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from tests.support.metrics_page import Samples

# On a console, how `sluice up` passes on what its engine writes.
ENGINES_LINE = "vllm | "
_PUBLIC = re.compile(r"serves http://[^:\s]+:(\d+)")
_ADMIN = re.compile(r"health: http://[^:\s]+:(\d+)")
_START_WITHIN_S = 20.0
_STOP_WITHIN_S = 20.0
# To try the tests of processes on another loop than the usual one.
_EVENT_LOOP = os.environ.get("SLUICE_TEST_EVENT_LOOP", "auto")


@dataclass
class GatewayProcess:
    """A running gateway. `log` collects its standard error, line by line."""

    process: asyncio.subprocess.Process
    port: int = 0
    admin_port: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def metrics(self) -> Samples:
        """Every sample of the metrics page, by name and labels."""
        return samples(await self._metrics_page())

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels; 0 when there are none."""
        wanted = labels.items()
        return sum(
            value
            for (_, having), value in samples_of(await self._metrics_page(), name).items()
            if wanted <= having
        )

    async def outcomes(self) -> Counter[str]:
        """How many requests ended how, so far. The difference of two of them has no zeros."""
        ended = samples_of(await self._metrics_page(), "sluice_requests_total")
        return Counter(
            {
                dict(labels)["outcome"]: int(value)
                for (_, labels), value in _summed_over_routes(ended).items()
            }
        )

    async def until_metric(
        self, name: str, value: float, within_s: float = 5.0, **labels: str
    ) -> None:
        """Waits for a metric to have a value; fails with the value that it had instead."""
        deadline = asyncio.get_running_loop().time() + within_s
        while (found := await self.metric(name, **labels)) != value:
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{name} is {found:g}, not {value:g}, after {within_s:g} s")
            await asyncio.sleep(0.01)

    async def until_idle(self, within_s: float = 2.0) -> None:
        """Waits until no seat is taken and nobody waits."""
        await self.until_metric("sluice_in_flight", 0, within_s)
        await self.until_metric("sluice_queue_depth", 0, within_s)

    async def _metrics_page(self) -> str:
        page = await ask_once(self.admin_port, request_bytes("/metrics", b"", "GET"))
        return page.body.decode()

    def open_descriptors(self) -> int:
        return open_descriptors(self.pid)

    def sockets_towards(self, port: int) -> int:
        """Open sockets of this process whose other end is this port."""
        return sockets_towards(self.pid, port)


@contextlib.asynccontextmanager
async def gateway(
    upstream_url: str | None,
    *arguments: str,
    command: str = "serve",
    run_by: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    preexec: Callable[[], None] | None = None,
    directory: Path | None = None,
    wait_until_ready: bool = True,
    start_within_s: float = _START_WITHIN_S,
    **settings: object,
) -> AsyncIterator[GatewayProcess]:
    """`settings` are SLUICE_ variables in lower case without the prefix. Stopped with SIGTERM.
    It runs in `directory`, where a .env file would be read, started by the command `run_by`.
    Without an `upstream_url` it finds its engine itself, as the `command` "up" does.

    Fails in the end when the gateway logged a traceback, or its server a complaint about it,
    whatever the test was about.
    """
    variables = {
        **({"SLUICE_UPSTREAM_URLS": upstream_url} if upstream_url else {}),
        "SLUICE_HOST": "127.0.0.1",
        "SLUICE_PORT": "0",
        "SLUICE_ADMIN_PORT": "0",
        "SLUICE_EVENT_LOOP": _EVENT_LOOP,
        **{f"SLUICE_{name.upper()}": str(value) for name, value in settings.items()},
        **(environment or {}),
    }
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    process = await asyncio.create_subprocess_exec(
        *(*run_by, sys.executable, "-m", "proxy", command, *arguments),
        env={**inherited, "PYTHONUNBUFFERED": "1", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
        cwd=directory,
        preexec_fn=preexec,
    )
    running = GatewayProcess(process)
    reading = asyncio.create_task(_collect(process, running.log))
    try:
        async with asyncio.timeout(start_within_s):
            await _read_ports(running, reading)
            if wait_until_ready:
                await _until_ready(running)
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        finally:
            await reading
    own = [line for line in running.log if not line.startswith(ENGINES_LINE)]
    faults = [line for line in own if "Traceback" in line or "ASGI callable" in line]
    assert not faults, f"the gateway failed inside: {faults}"


async def eventually(holds: Callable[[], bool], within_s: float = 5.0) -> None:
    """Waits for a state; fails with the condition's name when it does not come."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not holds():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {holds.__name__}")
        await asyncio.sleep(0.005)


def _summed_over_routes(samples: Samples) -> Samples:
    summed: Samples = {}
    for (name, labels), value in samples.items():
        key = (name, frozenset(pair for pair in labels if pair[0] != "route"))
        summed[key] = summed.get(key, 0.0) + value
    return summed


async def _collect(process: asyncio.subprocess.Process, log: list[str]) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        log.append(line.decode(errors="replace").rstrip("\n"))  # noqa: PERF401 - read while it grows


async def _read_ports(running: GatewayProcess, reading: asyncio.Task[None]) -> None:
    assert running.process.stdout is not None
    while not (running.port and running.admin_port):
        line = (await running.process.stdout.readline()).decode()
        if not line:
            await reading
            raise AssertionError("the gateway did not start:\n" + "\n".join(running.log))
        if found := _PUBLIC.search(line):
            running.port = int(found[1])
        if found := _ADMIN.search(line):
            running.admin_port = int(found[1])


async def _until_ready(running: GatewayProcess) -> None:
    while (await ask_once(running.port, request_bytes("/readyz", b"", "GET"))).status != 200:
        await asyncio.sleep(0.02)
