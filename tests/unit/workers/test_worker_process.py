"""Real processes, but none that would be a gateway: a few lines in its place."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING

from proxy.edge.server import Address, bind
from proxy.workers import worker_process as module
from proxy.workers.orders import Orders
from proxy.workers.worker_process import WorkerProcess
from tests.support.gateway_in_memory import settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# Tells what it was told, through a report that says so, and ends with the channel.
STAND_IN = """
import socket, sys
from proxy.workers.orders import Orders
from proxy.workers.report import encode
from tests.support.worker_reports import counted, report
orders = Orders.read(sys.stdin.buffer.read())
assert orders.settings.upstream_api_key.get_secret_value() == "sk-secret"
assert "sk-secret" not in repr(sys.argv)
channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
listener.listen()
told = encode(report(page=counted(orders.number)))
channel.sendall(len(told).to_bytes(4) + told)
channel.recv(1)
"""


def test_a_worker_is_told_its_orders_serves_its_socket_and_ends_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setattr(module, "_MODULE", "stand_in")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:.")
    orders = Orders(settings(upstream_api_key="sk-secret"), 7, 0.0)

    async def scenario() -> None:
        listener = bind(Address("127.0.0.1", 0, ""))
        where = listener.getsockname()
        worker = await WorkerProcess.start(orders, listener)
        assert listener.fileno() == -1, "it lives and dies with the worker"
        assert await worker.ready()
        assert worker.latest is not None
        assert worker.latest.page[0].figures[0].value == 7
        socket.create_connection(where).close()
        worker.terminate()
        assert await worker.ended() == -signal.SIGTERM
        worker.terminate()
        worker.kill()  # nobody is there any more, which harms nobody
        assert not await worker.ask(1.0)

    asyncio.run(scenario())


def test_one_that_ends_at_once_was_never_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stand_in.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(module, "_MODULE", "stand_in")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:.")

    async def scenario() -> None:
        listener = bind(Address("127.0.0.1", 0, ""))
        worker = await WorkerProcess.start(Orders(settings(), 1, 0.0), listener)
        assert not await worker.ready()
        assert await worker.ended() == 3

    asyncio.run(scenario())
