"""The parent, in this process; its workers are made up. Real ones are in tests/e2e."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Self

import click
import httpx
import pytest

from proxy.cli import serve_workers as module
from proxy.edge.server import Address, bind
from tests.support.gateway_in_memory import settings
from tests.support.worker_reports import URL, counted, report

if TYPE_CHECKING:
    import socket

    from proxy.workers.changes import Changes
    from proxy.workers.report import WorkerReport
    from proxy.workers.worker_process import Orders

pytestmark = pytest.mark.usefixtures("clean_environment")


class Worker:
    """Serves at once, on nothing, and ends with `code` when it is told to."""

    code = 0
    starts = True

    def __init__(self, number: int) -> None:
        self.pid = 10_000_000 + number  # above what the kernel gives
        self.latest: WorkerReport | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def start(cls, orders: Orders, listener: socket.socket) -> Worker:
        listener.close()
        return cls(orders.number)

    async def ask(self, within_s: float) -> bool:
        return within_s > 0

    def change(self, changes: Changes) -> None:
        raise AssertionError(f"nobody has changed anything: {changes}")

    async def ready(self) -> bool:
        self.latest = report(page=counted(self.pid)) if self.starts else None
        return self.starts

    async def ended(self) -> int:
        if self.starts:
            await self._ended.wait()
        return self.code

    def terminate(self) -> None:
        self._ended.set()

    def kill(self) -> None:
        self._ended.set()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> type[Worker]:
    kind = type("Kind", (Worker,), {})
    monkeypatch.setattr(module, "WorkerProcess", kind)
    return kind


class Supervising:
    def __init__(self) -> None:
        chosen = settings(workers=2, redis_url="redis://127.0.0.1:1/0", max_in_flight=8)
        self._sockets = bind(Address("127.0.0.1", 0, "")), bind(Address("127.0.0.1", 0, ""))
        self.admin = f"http://127.0.0.1:{self._sockets[1].getsockname()[1]}"
        self.running = asyncio.create_task(module.supervise(chosen, *self._sockets))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
        for one in self._sockets:
            one.close()


def test_the_parent_says_where_and_shows_all_until_a_signal_comes(
    worker: type[Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    assert worker.starts

    async def scenario() -> None:
        async with Supervising() as parent, httpx.AsyncClient(trust_env=False) as client:
            said = ""
            while "serves http://" not in said:
                await asyncio.sleep(0.005)
                said += capsys.readouterr().out
            assert f"in front of {URL}: 8 seats, 4 waiting places" in said
            assert ", 2 processes" in said
            page = (await client.get(f"{parent.admin}/metrics")).text
            assert "sluice_workers 2.0" in page
            assert 'sluice_requests_total{outcome="ok"} 2.0000003e+07' in page
            assert "process_open_fds" in page
            os.kill(os.getpid(), signal.SIGTERM)
            await parent.running

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("starts", "code", "said"),
    [(False, 1, "ended with exit code 1"), (True, 1, "not every worker ended in good order")],
    ids=["start", "drain"],
)
def test_the_exit_code_tells_what_went_wrong(
    worker: type[Worker],
    starts: bool,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worker.starts, worker.code = starts, code

    async def scenario() -> None:
        async with Supervising() as parent:
            while starts and "serves http://" not in capsys.readouterr().out:
                await asyncio.sleep(0.005)
            if starts:
                os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(click.ClickException, match=said):
                await parent.running

    asyncio.run(scenario())


def test_a_second_signal_ends_them_all(
    worker: type[Worker], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(module, "exit_at_once", numbers.append)
    monkeypatch.setattr(worker, "terminate", lambda _: None)
    worker.code = -signal.SIGKILL

    async def scenario() -> None:
        async with Supervising() as parent:
            while "serves http://" not in capsys.readouterr().out:
                await asyncio.sleep(0.005)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(click.ClickException, match="good order"):
                await parent.running
            assert numbers == [signal.SIGTERM]

    asyncio.run(scenario())
