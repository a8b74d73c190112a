"""The simulated vLLM server in memory, for tests in virtual time.

async with simulated(max_num_seqs=2) as server:
    answer = await server.post(b"/v1/completions", {"prompt": "hello"})
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.simulator.options import SimulatorOptions
from proxy.simulator.server import SimulatedServer, create_app
from tests.support.asgi_transport import AsgiClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.simulator.log_lines import LogLine
    from proxy.simulator.simulated_engine import SimulatedEngine
    from tests.support.asgi_transport import AsgiExchange, Headers, Response

JSON = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class Simulated:
    """The running app and a client of it."""

    app: SimulatedServer
    client: AsgiClient

    @property
    def engine(self) -> SimulatedEngine:
        return self.app.state.engine

    def start(self, path: bytes, body: object, headers: Headers = ()) -> AsgiExchange:
        """Starts a POST of some JSON."""
        raw = json.dumps(body).encode()
        return self.client.start("POST", path, [JSON, *headers], raw)

    async def post(self, path: bytes, body: object, headers: Headers = ()) -> Response:
        raw = json.dumps(body).encode()
        return await self.client.request("POST", path, [JSON, *headers], raw)

    async def get(self, path: bytes, headers: Headers = ()) -> Response:
        return await self.client.request("GET", path, headers)

    async def metric(self, sample: str) -> float:
        """The value of one line of /metrics; `sample` is all of it before the value."""
        page = (await self.get(b"/metrics")).body.decode()
        values = [line.rpartition(" ") for line in page.splitlines()]
        return next(float(value) for name, _, value in values if name == sample)


@contextlib.asynccontextmanager
async def simulated(
    log: Callable[[LogLine], None] = lambda _line: None, **options: object
) -> AsyncIterator[Simulated]:
    """A simulated server whose engine runs. `options` are those of SimulatorOptions."""
    app = create_app(SimulatorOptions(**options), log)
    async with app.state.engine:
        yield Simulated(app, AsgiClient(app))


def events_of(body: bytes) -> list[Any]:
    """The `data` of each server-sent event: decoded JSON, or the text `[DONE]`."""
    lines = [line for line in body.decode().split("\n") if line.startswith("data: ")]
    data = [line.removeprefix("data: ") for line in lines]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


def event_names(body: bytes) -> list[str]:
    """The `event:` names, in order."""
    lines = body.decode().split("\n")
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
