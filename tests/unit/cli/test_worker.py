"""One worker, in this process; its parent's end of the channel is in the test's hands."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Self

import httpx
import pytest

from proxy.cli import worker as module
from proxy.edge.server import Address, bind
from proxy.workers.channel import ParentEnd
from proxy.workers.orders import Orders
from tests.support.gateway_in_memory import settings
from tests.support.gateway_process import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("clean_environment", "usual_gc")


@pytest.fixture
def usual_gc() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Working:
    """A worker that serves until its parent vanishes or a signal comes."""

    async def __aenter__(self) -> Self:
        ours, its = socket.socketpair()
        listener = bind(Address("127.0.0.1", 0, ""))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        orders = Orders(settings(upstream_urls="http://127.0.0.1:1"), 1, 0.0)
        self.working = asyncio.create_task(module.work(orders, (), its, listener))
        self._ours = ours
        self.parent = await ParentEnd.open(ours)
        self.listening = asyncio.create_task(self.parent.listen())
        assert await self.parent.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.working.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.gather(self.working, self.listening)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)


def counted(parent: ParentEnd, name: str) -> float:
    assert parent.latest is not None
    return sum(
        figure.value
        for family in parent.latest.page
        for figure in family.figures
        if figure.name == name
    )


def test_it_serves_and_says_what_it_has_done_also_with_its_last_words() -> None:
    async def scenario() -> None:
        async with Working() as one, httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{one.url}/healthz")).status_code == 200
            assert (await client.get(f"{one.url}/metrics")).status_code == 404
            assert await one.parent.ask(5.0)
            before = counted(one.parent, "sluice_requests_total")
            await client.post(f"{one.url}/v1/completions", json={"prompt": "x"})
            os.kill(os.getpid(), signal.SIGTERM)
            await one.working
            await one.listening
            assert counted(one.parent, "sluice_requests_total") == before + 1
            assert counted(one.parent, "sluice_draining") == 1

    asyncio.run(scenario())


def test_it_drains_when_its_parent_is_gone_however_often_it_is_signalled() -> None:
    async def scenario() -> None:
        async with Working() as one:
            one.parent._writer.close()
            await one.working
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)

    asyncio.run(scenario())


def test_orders_must_be_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(b"hello")

    monkeypatch.setattr(sys, "stdin", Input())
    with pytest.raises(TypeError, match="not by hand"):
        module.main(["1", "2"])


def test_one_that_cannot_tell_how_it_is_says_so_and_ends_as_if_it_was_told_to(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It went on serving, out of its parent's hearing, and would have outlived it."""

    async def scenario() -> None:
        async with Working() as worker:
            with monkeypatch.context() as failing:
                failing.setattr(module, "report_of", _no_memory)
                asking = asyncio.create_task(worker.parent.ask(5.0))
                await eventually(lambda: bool(caplog.records))
            await worker.working
            await asking  # its last words answer it

    caplog.set_level("ERROR", "sluice.workers")
    asyncio.run(scenario())
    (said,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert said.getMessage() == "this worker cannot tell how it is, and ends"
    assert said.exc_info


def _no_memory(_: object) -> None:
    raise MemoryError


def test_one_that_could_let_nobody_in_does_not_go_on_and_says_why_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would deal it connections for which the others have seats."""
    monkeypatch.setattr(module, "_SAYS_AFTER_S", 0.0)
    monkeypatch.setattr(module, "_LOOKS_EVERY_S", 0.0)
    bars = iter(["no store", "no store", "no store", ""])
    caplog.set_level("WARNING", "sluice.workers")
    asyncio.run(module.until_unbarred(lambda: next(bars)))
    assert next(bars, None) is None
    assert [one.getMessage() for one in caplog.records] == [
        "this worker takes no connections yet, the others do: no store"
    ]


def test_one_that_can_let_somebody_in_goes_on_at_once(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(module.until_unbarred(str))
    assert caplog.records == []
