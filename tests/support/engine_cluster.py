"""Several engines in memory, each with a host of its own, as the gateway and its pollers find them.

    cluster = EngineCluster("one", "two")
    with_pollers(cluster, monkeypatch)
    async with gateway(..., upstream=cluster, upstream_urls=cluster.urls) as sluice:

`EngineHost.is_dead` refuses every connection, of requests as of pollers; `refuses_requests` those
of requests only, as if it had died since the last poll. One that `is_silent` answers no poller.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
from typing import TYPE_CHECKING

import httpx

from proxy import engine_fleet
from proxy.upstream.errors import UpstreamConnectError, said_of
from proxy.vllm.poller import EnginePoller
from tests.support.asgi_transport import AsgiClient
from tests.support.engine_transport import late, ok, refused, status
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import ScriptedApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import UpstreamRequest, UpstreamResponse
    from tests.support.asgi_transport import App
    from tests.support.engine_transport import Answering


class EngineHost:
    """One engine. `app` answers requests, `models` is what it says at /v1/models."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = f"http://{name}.test"
        self.app = ScriptedApp()
        self.wire = InMemoryUpstream(self.app)
        self.models: tuple[str, ...] = ("m",)
        self.is_dead = False
        self.refuses_requests = False
        self.is_silent = False
        self.pages: dict[str, Answering] = {}
        """What pollers hear on some paths, also from one that is silent else."""
        self._polled: AsgiClient | None = None

    def runs(self, app: App) -> None:
        """Another app in place of the scripted one, which pollers ask too."""
        self.wire = InMemoryUpstream(app)
        self._polled = AsgiClient(app)

    def answer_to(self, path: str) -> Answering:
        """What a poller hears."""
        if self.is_dead:
            return refused
        if path in self.pages:
            return self.pages[path]
        if self.is_silent:
            return late(math.inf)
        if self._polled is not None:
            return self._ask_the_app
        if path == "/v1/models":
            page = {"data": [{"id": model} for model in self.models]}
            return ok(json.dumps(page).encode())
        return ok() if path == "/health" else status(404)

    async def _ask_the_app(self, request: httpx.Request) -> httpx.Response:
        assert self._polled is not None
        answer = await self._polled.request("GET", request.url.raw_path)
        return httpx.Response(answer.status, stream=httpx.ByteStream(answer.body))


class EngineCluster(httpx.AsyncBaseTransport):
    """An Upstream for requests, and a transport for pollers. `tried` lists where requests went."""

    def __init__(self, *names: str) -> None:
        self.hosts = {name: EngineHost(name) for name in names}
        self.urls = ",".join(host.url for host in self.hosts.values())
        self.tried: list[str] = []
        self.closed = False

    def __getitem__(self, name: str) -> EngineHost:
        return self.hosts[name]

    @property
    def in_flight(self) -> int:
        return sum(host.wire.in_flight for host in self.hosts.values())

    def loads(self) -> dict[str, int]:
        """Requests that run in each."""
        return {name: host.app.in_flight for name, host in self.hosts.items()}

    def seen(self) -> dict[str, int]:
        """Requests that each has got so far."""
        return {name: len(host.app.seen) for name, host in self.hosts.items()}

    # As an Upstream

    @contextlib.asynccontextmanager
    async def exchange(self, request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
        name = dict(request.headers)[b"host"].decode().removesuffix(".test")
        host = self.hosts[name]
        self.tried.append(name)
        if host.is_dead or host.refuses_requests:
            raise UpstreamConnectError(said_of(host.url, "connection refused"))
        async with host.wire.exchange(request) as response:
            yield response

    def move(self, address: UpstreamAddress) -> None: ...

    async def aclose(self) -> None:
        self.closed = True

    # As a transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = self.hosts[request.url.host.removesuffix(".test")]
        return await host.answer_to(request.url.path)(request)


def with_pollers(cluster: EngineCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on applications poll these engines in memory."""
    polling = functools.partial(EnginePoller, transport=cluster)
    monkeypatch.setattr(engine_fleet, "EnginePoller", polling)


def prompt(text: str, model: str = "m") -> bytes:
    """A request's body."""
    return json.dumps({"model": model, "prompt": text}).encode()
