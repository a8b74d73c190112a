"""Engines that come and go while the gateway runs, as a file and a name server say it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.app import build
from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import settings
from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_resolver import ScriptedResolver
from tests.support.scripted_upstream import (
    DEFAULT_PROBES,
    Exchange,
    ScriptedUpstream,
    json_answer,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.gateway_process import GatewayProcess

STREAM = request_bytes(body={"stream": True})


def engine(host: str = "127.0.0.1", port: int = 0) -> ScriptedUpstream:
    """One that counts what the gateway passes on, and not what it asks itself."""
    probes = {**DEFAULT_PROBES, b"/v1/models": not_found}
    return ScriptedUpstream(host=host, port=port, probes=probes, behind_gateway=True)


@dataclass
class LongStream:
    """An answer that goes on until it is told to end; any other is given at once."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.request.body != b'{"stream": true}':
            await json_answer()(exchange)
            return
        exchange.start_chunked()
        exchange.chunk(b"data: begun\n\n")
        await self.may_end.wait()
        exchange.chunk(b"data: ended\n\n")
        exchange.end_chunked()


@contextlib.asynccontextmanager
async def load(port: int, clients: int = 4) -> AsyncIterator[list[int]]:
    """Clients that ask without a pause, and the statuses that they get."""
    statuses: list[int] = []

    async def client() -> None:
        async with await RawClient.connect(port) as connection:
            while True:
                statuses.append((await connection.ask(request_bytes())).status)

    asking = [asyncio.create_task(client()) for _ in range(clients)]
    try:
        yield statuses
    finally:
        for task in asking:
            task.cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended


def rewrite(path: Path, *lines: str) -> None:
    """As an atomic writer does."""
    new = path.with_name("new")
    new.write_text("\n".join(lines))
    new.rename(path)


def logged(sluice: GatewayProcess, words: str) -> Callable[[], bool]:
    return lambda: any(words in line for line in sluice.log)


def test_engines_come_and_go_with_the_lines_of_a_file_under_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "upstreams"
        async with engine() as one, engine() as two:
            stream = one.handler = LongStream()
            rewrite(path, one.url)
            async with gateway("", upstreams_file=path, max_in_flight=8) as sluice:
                async with (
                    await RawClient.connect(sluice.port) as long,
                    load(sluice.port) as statuses,
                ):
                    long.send(STREAM)
                    answer = await long.head()
                    assert await long.chunk(answer) == b"data: begun\n\n"

                    rewrite(path, "# both", one.url, two.url)
                    await two.until(lambda: len(two.seen) > 20)

                    rewrite(path, f"{two.url}/v1")
                    await eventually(logged(sluice, f"engine {one.url}: removed"))
                    seen = len(two.seen)
                    await two.until(lambda: len(two.seen) > seen + 200)
                    assert (one.inflight, one.aborts) == (1, 0)
                    last = len(one.seen)
                    await sluice.until_metric("sluice_in_flight", 1, upstream=one.url)

                    stream.may_end.set()
                    assert await long.chunk(answer) == b"data: ended\n\n"
                    assert await long.chunk(answer) == b""
                    assert len(one.seen) == last
                    assert set(statuses) == {200}

                rewrite(path, two.url, "http//oops")
                await eventually(logged(sluice, "line 2: 'http//oops'"))
                assert (await ask_once(sluice.port, request_bytes())).status == 200

                rewrite(path)
                await eventually(logged(sluice, "names no engine"))
                refused = await ask_once(sluice.port, request_bytes())
                assert (refused.status, refused.error["code"]) == (503, "upstream_unavailable")
                ready = await ask_once(sluice.port, request_bytes("/readyz", b"", "GET"))
                assert ready.status == 503

                rewrite(path, one.url)
                await one.until(lambda: len(one.probed) > 0)
                while (await ask_once(sluice.port, request_bytes())).status != 200:
                    await asyncio.sleep(0.05)
                assert len(one.seen) == last + 1
            assert sum("http//oops" in line for line in sluice.log) == 1
            assert sluice.exit_code == 0

    asyncio.run(scenario())


def test_each_address_of_a_name_is_polled_and_asked_by_that_name() -> None:
    """The gateway in this process, for its name server is the test's; its sockets are real."""

    async def scenario() -> None:
        async with engine() as one, engine("127.0.0.2", one.port) as two:
            resolver = ScriptedResolver(vllm=["127.0.0.1", "127.0.0.2", "::1"])
            name = f"http://vllm:{one.port}"
            application = build(settings(upstream_urls=name, dns_interval=5), resolver=resolver)
            await application.start()
            try:
                assert sorted(application.fleet.engines) == [
                    f"{name}#127.0.0.1",
                    f"{name}#127.0.0.2",
                ]
                for upstream in (one, two):
                    await upstream.until(lambda probed=upstream.probed: len(probed) > 0)
                    assert b"\r\nhost: vllm:%d\r\n" % one.port in upstream.probed[0].raw.lower()
                client = AsgiClient(application.public)
                for _ in range(40):
                    answer = await client.request("POST", b"/v1/completions", [], b"{}")
                    assert answer.status == 200
                for upstream in (one, two):
                    assert len(upstream.seen) > 0
                    assert b"\r\nhost: vllm:%d\r\n" % one.port in upstream.seen[0].raw.lower()
            finally:
                await application.stop()

    asyncio.run(scenario())
