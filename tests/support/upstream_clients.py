"""The implementations of the Upstream port, for suites that run over all of them.

    @every_client
    def test_something(client: UpstreamClient) -> None:
        async def scenario() -> None:
            async with client.facing(ScriptedUpstream()) as (engine, upstream):
                assert (await fetch(upstream)).status == 200

        client.run(scenario())

`@every_client_but("early_answers")` runs over all of them too, and expects the test to fail where
the implementation says it lacks that ability: a difference that goes away turns the suite red.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import uvloop

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import IDLE_EXPIRY_S, ConnectionPool
from proxy.upstream.port import UpstreamRequest, UpstreamTimeouts

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence

    from _pytest.mark import ParameterSet

    from proxy.upstream.port import RawHeaders, Upstream
    from tests.support.scripted_upstream import ScriptedUpstream


class _MakesUpstream(Protocol):
    def __call__(
        self,
        address: UpstreamAddress,
        timeouts: UpstreamTimeouts | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        idle_expiry_s: float = ...,
    ) -> Upstream: ...


@dataclass(frozen=True)
class UpstreamClient:
    """One implementation on one event loop. `lacks` says why for each ability it has not."""

    name: str
    make: _MakesUpstream
    new_loop: Callable[[], asyncio.AbstractEventLoop]
    lacks: Mapping[str, str] = field(default_factory=dict)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Runs a scenario and checks that it leaves nothing: no task, no timer, no socket."""
        gc.collect()  # sockets that an earlier test left to the collector
        before = _sockets()
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(_nothing_left(scenario))
        assert not _sockets() - before, "sockets leaked"

    @contextlib.asynccontextmanager
    async def facing(
        self,
        engine: ScriptedUpstream,
        timeouts: UpstreamTimeouts | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        idle_expiry_s: float = IDLE_EXPIRY_S,
    ) -> AsyncIterator[tuple[ScriptedUpstream, Upstream]]:
        """The engine, listening, and an upstream for it; whose closing the engine must see."""
        async with engine:
            address = UpstreamAddress.parse(engine.url)
            upstream = self.make(address, timeouts, ssl_context=tls, idle_expiry_s=idle_expiry_s)
            async with contextlib.aclosing(upstream):
                yield engine, upstream
            await engine.until(lambda: engine.connections_open == 0)

    # Upstreams for what is not a scripted engine. The test closes them.

    def for_port(self, port: int, timeouts: UpstreamTimeouts | None = None) -> Upstream:
        return self.make(UpstreamAddress.parse(f"http://127.0.0.1:{port}"), timeouts)

    def for_host(self, host: str, timeouts: UpstreamTimeouts | None = None) -> Upstream:
        return self.make(UpstreamAddress.parse(f"http://{host}"), timeouts)

    def secure_for_port(
        self, port: int, tls: ssl.SSLContext, timeouts: UpstreamTimeouts | None = None
    ) -> Upstream:
        address = UpstreamAddress.parse(f"https://127.0.0.1:{port}")
        return self.make(address, timeouts, ssl_context=tls)


async def _nothing_left(scenario: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    await scenario
    for _ in range(10):  # what was aborted or cancelled last ends in the next turns
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, f"tasks left: {others}"
    assert not failures, f"the loop was told of failures: {failures}"
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    assert not timers, f"timers left: {timers}"


def _sockets() -> set[str]:
    """The open ones. Closed ones drop out even while an object still holds their number."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


_HTTPX_LACKS = {
    "early_answers": "httpcore reads nothing before it has sent the whole request",
    "strict_heads": "h11 unfolds header lines and takes a bare LF for a line end",
    "surplus_is_noticed": "h11 keeps surplus bytes and reads them as the next response",
    "idle_timer": "httpcore looks after idle connections only when the pool is used",
    "sees_partial_heads": "httpcore reports a partial response head as no response",
    "any_target_byte": "h11 refuses request targets beyond printable ASCII",
    "reuse_unread": "httpcore gives a connection back only once its body was read to the end",
    "bounded_interim_answers": "h11 forgets the bytes of one 1xx head with the next",
    "idle_in_head": "httpcore does not tell when a response head begins",
}

CLIENTS = [
    UpstreamClient("own-asyncio", ConnectionPool, asyncio.new_event_loop),
    UpstreamClient("own-uvloop", ConnectionPool, uvloop.new_event_loop),
    UpstreamClient("httpx-asyncio", HttpxUpstream, asyncio.new_event_loop, _HTTPX_LACKS),
    UpstreamClient("httpx-uvloop", HttpxUpstream, uvloop.new_event_loop, _HTTPX_LACKS),
]

every_client = pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])


def every_client_but(ability: str) -> pytest.MarkDecorator:
    """Over all clients; must fail, with the reason shown, where one lacks the ability."""
    assert any(ability in client.lacks for client in CLIENTS), f"no client lacks {ability!r}"
    return pytest.mark.parametrize("client", [_marked(client, ability) for client in CLIENTS])


def _marked(client: UpstreamClient, ability: str) -> ParameterSet:
    reason = client.lacks.get(ability)
    marks = [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]
    return pytest.param(client, marks=marks, id=client.name)


@dataclass(frozen=True)
class Fetched:
    """A whole response."""

    status: int
    headers: RawHeaders
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]


def ask(
    method: str = "POST",
    target: bytes = b"/v1/completions",
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes = b'{"prompt": "hi"}',
) -> UpstreamRequest:
    return UpstreamRequest(method, target, [(b"host", b"engine"), *headers], body)


async def fetch(upstream: Upstream, request: UpstreamRequest | None = None) -> Fetched:
    """One exchange, read to the end."""
    async with upstream.exchange(request or ask()) as response:
        body = bytearray()
        while piece := await response.read():
            body += piece
        return Fetched(response.status, response.headers, bytes(body))
