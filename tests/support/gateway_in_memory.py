"""The whole gateway in one virtual-time loop: the app as `sluice serve` wires it, minus sockets.

    async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
        answer = await sluice.ask({"prompt": "hi"})

Leaving it checks what must hold after anything: no seat taken, nobody waiting, no exchange with the
engine open, and exactly one outcome for every request that came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from proxy.app import Application, build
from proxy.settings import Settings
from tests.support.asgi_transport import AsgiClient
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import Hold, ScriptedApp
from tests.support.virtual_time import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from proxy.edge.records import RecordSink
    from proxy.telemetry.request_record import RequestRecord
    from proxy.upstream.port import UpstreamTimeouts
    from tests.support.asgi_transport import App, AsgiExchange, Headers, Response, Upload
    from tests.support.engine_cluster import EngineCluster

ENGINE_URL = "http://engine.test"
_SMALL = {"max_in_flight": 2, "max_queue_depth": 4}
_LOCAL = (b"/healthz", b"/readyz")


def settings(**values: object) -> Settings:
    """Settings of a test: `max_in_flight` seats and the like, nothing from the environment."""
    given: dict[str, Any] = {
        "upstream_urls": ENGINE_URL,
        "dns_interval": 0,  # names in tests are nobody's
        "max_in_flight": 2,
        "max_queue_depth": 4,
        **values,
    }
    return Settings(_env_file=None, _env_prefix="NOT_FROM_OUTSIDE_", **given)


class RecordList:
    """A record sink that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def write(self, record: RequestRecord) -> None:
        self.records.append(record)


@dataclass
class Sluice:
    """The running gateway, its clients' side, and its engine's."""

    application: Application
    upstream: InMemoryUpstream | EngineCluster
    client: AsgiClient
    records: list[RequestRecord]
    started: int = field(default=0, init=False)

    def start(
        self,
        body: Upload | dict[str, Any] = b"{}",
        *,
        target: bytes = b"/v1/completions",
        method: str = "POST",
        headers: Headers = (),
        client_id: str | None = None,
    ) -> AsgiExchange:
        """Starts one request on a connection of its own. A dict is sent as JSON."""
        if target.partition(b"?")[0] not in _LOCAL:
            self.started += 1
        fields = list(headers)
        if client_id is not None:
            fields.append((b"x-client-id", client_id.encode()))
        if isinstance(body, dict):
            fields.append((b"content-type", b"application/json"))
            body = json.dumps(body).encode()
        return self.client.start(method, target, fields, body)

    async def ask(
        self,
        body: Upload | dict[str, Any] = b"{}",
        *,
        target: bytes = b"/v1/completions",
        method: str = "POST",
        headers: Headers = (),
        client_id: str | None = None,
    ) -> Response:
        """One whole request and its whole answer."""
        exchange = self.start(
            body, target=target, method=method, headers=headers, client_id=client_id
        )
        return await exchange.response()

    async def get(self, target: bytes, headers: Headers = ()) -> Response:
        return await self.ask(b"", target=target, method="GET", headers=headers)

    async def hold_seats(self, count: int) -> list[AsgiExchange]:
        """Requests that have been handed to the core; the engine decides how long they take."""
        exchanges = [self.start(client_id=f"held {number}") for number in range(count)]
        await settle()
        return exchanges

    # What the metrics page says

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels; 0 when there are none."""
        page, _ = self.application.metrics.page()
        return sum(
            sample.value
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def _counts(self, name: str, label: str) -> Counter[str]:
        page, _ = self.application.metrics.page()
        counts: Counter[str] = Counter()
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                if sample.name == name and sample.value:
                    counts[sample.labels[label]] += int(sample.value)
        return counts

    def outcomes(self) -> Counter[str]:
        return self._counts("sluice_requests_total", "outcome")

    def sheds(self) -> Counter[str]:
        return self._counts("sluice_shed_total", "reason")

    @property
    def in_flight(self) -> int:
        return int(self.metric("sluice_in_flight"))

    @property
    def queue_depth(self) -> int:
        return int(self.metric("sluice_queue_depth"))

    # What must hold

    def check_idle(self) -> None:
        assert (self.in_flight, self.queue_depth, self.upstream.in_flight) == (0, 0, 0)
        assert self.application.drain.running == 0
        assert self.application.public.intake.buffered_bytes == 0
        assert self.application.public.open_places.taken == 0
        outcomes = self.outcomes()
        assert outcomes.total() == self.started, f"{outcomes} of {self.started} requests"
        assert len(self.records) == self.started
        refused = sum(record.outcome == "shed" for record in self.records)
        assert self.sheds().total() == refused == outcomes["shed"]

    async def probe_capacity(self, engine: ScriptedApp) -> None:
        """As many seats as ever, and not one more. Needs a waiting place."""
        self.check_idle()
        seats = self.application.controller.snapshot().limit
        usual, hold = engine.handler, Hold()
        engine.handler = hold
        probes = await self.hold_seats(seats)
        assert engine.in_flight == seats, "a permit was lost"
        surplus = await self.hold_seats(1)
        assert engine.in_flight == seats, "a permit was duplicated"
        assert self.queue_depth == 1
        hold.release()
        answers = [await exchange.response() for exchange in probes + surplus]
        assert [answer.status for answer in answers] == [200] * (seats + 1)
        engine.handler = usual
        self.check_idle()


async def leave(*exchanges: AsgiExchange) -> None:
    """These clients hang up. Returns when the gateway is done with them."""
    for exchange in exchanges:
        exchange.disconnect()
    await asyncio.gather(*(exchange.ended() for exchange in exchanges))


@contextlib.asynccontextmanager
async def gateway(
    engine: App,
    *,
    timeouts: UpstreamTimeouts | None = None,
    upstream: InMemoryUpstream | EngineCluster | None = None,
    poll: bool = False,
    sinks: Sequence[RecordSink] = (),
    **values: object,
) -> AsyncIterator[Sluice]:
    """`values` are settings; `timeouts` those towards the engine; `upstream` instead of the usual
    way to it. Engines are asked how they are only if `poll`. `sinks` get the records too."""
    upstream = upstream or InMemoryUpstream(engine, timeouts)
    sink = RecordList()
    clock = asyncio.get_running_loop().time
    application = build(
        settings(**values), [sink, *sinks], upstream, poll_engines=poll, clock=clock
    )
    sluice = Sluice(application, upstream, AsgiClient(application.public), sink.records)
    await application.start()
    yield sluice
    await settle()
    sluice.check_idle()
    await application.stop()
    assert upstream.closed
