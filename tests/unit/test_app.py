"""Settings in, wired application out: that every part got what it was meant to get."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy import app, engine_fleet
from proxy.app import Application, build
from proxy.engine_fleet import EngineFleet
from proxy.shared_limit import redis_store
from proxy.shared_limit.lease_keeper import LeaseKeeper
from proxy.shared_limit.memory_store import MemoryStore
from proxy.shared_limit.store import StoreAwayError, StoreRefusedError
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import ConnectionPool
from proxy.vllm.poller import EnginePoller
from tests.support.asgi_transport import AsgiClient
from tests.support.engine_transport import ScriptedEngine, late, ok, refused, status
from tests.support.gateway_in_memory import RecordList, gateway, settings
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import ScriptedApp, error_of
from tests.support.scripted_resolver import ScriptedResolver
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.shared_limit.store import Granted, Renewal
    from proxy.telemetry.metrics import Metrics

ENGINE_PAGE = (
    b'vllm:num_requests_running{engine="0"} 3\n'
    b'vllm:num_requests_waiting{engine="0"} 1\n'
    b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    """The engine as its poller sees it, which asks it in memory."""
    scripted = ScriptedEngine({"/health": ok(), "/metrics": ok(ENGINE_PAGE), "/v1/models": ok()})
    polling = functools.partial(EnginePoller, transport=scripted)
    monkeypatch.setattr(engine_fleet, "EnginePoller", polling)
    return scripted


def built(**values: object) -> Application:
    """With an upstream in memory, polling the engine."""
    clock = asyncio.get_running_loop().time
    return build(settings(**values), upstream=InMemoryUpstream(ScriptedApp()), clock=clock)


async def ready(application: Application) -> tuple[int, dict[str, Any]]:
    answer = await AsgiClient(application.admin).request("GET", b"/readyz")
    return answer.status, json.loads(answer.body)


def lines(metrics: Metrics, name: str) -> list[str]:
    page = metrics.page()[0].decode().splitlines()
    return [line for line in page if line.startswith((f"{name}{{", f"{name} "))]


def test_limits_are_those_of_the_settings() -> None:
    async def scenario() -> None:
        application = built(max_in_flight=7, max_queue_depth=9, max_body_bytes=1000)
        snapshot = application.controller.snapshot()
        assert (snapshot.limit, snapshot.max_queue_depth) == (7, 9)
        assert [upstream.name for upstream in snapshot.upstreams] == ["http://engine.test"]
        intake = application.public.intake
        assert intake.max_body_bytes == 1000
        assert intake.max_buffered_bytes == (7 + 9) * 1000
        await application.stop()

    run(scenario())


def test_times_are_those_of_the_settings() -> None:
    async def scenario() -> None:
        application = built(queue_timeout=3, body_timeout=4)
        assert application.public.doorman.queue_timeout_s() == 3
        assert application.public.intake.body_timeout_s == 4
        await application.stop()

    run(scenario())


@pytest.mark.parametrize(("client", "kind"), [("pool", ConnectionPool), ("httpx", HttpxUpstream)])
def test_the_client_towards_the_engine_is_the_one_that_was_chosen(client: str, kind: type) -> None:
    async def scenario() -> None:
        application = build(settings(upstream_client=client), poll_engines=False)
        (engine,) = application.fleet.engines.values()
        assert isinstance(engine.upstream, kind)
        await application.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(("key", "sent"), [("sk-engine", b"Bearer sk-engine"), (None, None)])
def test_the_engines_key_is_a_bearer(key: str | None, sent: bytes | None) -> None:
    async def scenario() -> None:
        application = built(upstream_api_key=key)
        (engine,) = application.fleet.engines.values()
        assert engine.authorization == sent
        await application.stop()

    run(scenario())


def test_client_keys_come_with_their_names() -> None:
    async def scenario() -> None:
        application = built(api_keys="team:sk-1")
        keys = application.public.doorman.keys
        assert keys.holder([(b"authorization", b"Bearer sk-1")]) == "team"
        await application.stop()

    run(scenario())


def test_every_engine_has_the_limits_of_the_settings_and_places_of_its_own() -> None:
    async def scenario() -> None:
        urls = "http://one.test,http://two.test:8000/prefix/v1"
        given = settings(upstream_urls=urls, max_in_flight=7, max_queue_depth=9, max_body_bytes=9)
        upstream = InMemoryUpstream(ScriptedApp())
        application = build(given, upstream=upstream, poll_engines=False)
        snapshot = application.controller.snapshot()
        assert [(one.name, one.limit) for one in snapshot.upstreams] == [
            ("http://one.test", 7),
            ("http://two.test:8000/prefix", 7),
        ]
        assert snapshot.max_queue_depth == 9
        assert application.public.intake.max_buffered_bytes == (2 * 7 + 9) * 9
        assert application.public.open_places.most == 2 * 128
        application.fleet.set([])
        assert application.controller.snapshot().upstreams == ()
        assert application.public.intake.max_buffered_bytes == 9 * 9
        await application.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("affinity", "same"), [("none", False), ("session", True), ("prefix", True)]
)
def test_requests_that_belong_together_go_to_one_engine_if_that_is_wanted(
    affinity: str, same: bool
) -> None:
    async def scenario() -> None:
        urls = ",".join(f"http://{name}.test" for name in "abcdef")
        records = RecordList()
        given = settings(upstream_urls=urls, affinity=affinity)
        upstream = InMemoryUpstream(ScriptedApp())
        application = build(given, [records], upstream, poll_engines=False)
        client = AsgiClient(application.public)
        for _ in range(30):
            headers = [(b"x-session-id", b"s1"), (b"content-type", b"application/json")]
            await client.request("POST", b"/v1/completions", headers, b'{"prompt": "Once"}')
        used = {record.upstream for record in records.records}
        assert (len(used) == 1) is same
        await application.stop()

    run(scenario())


def test_tokens_are_metered_only_where_a_token_limit_is_set() -> None:
    async def scenario() -> None:
        for values, metered in (({}, False), ({"max_kv_tokens": "auto"}, True)):
            application = build(
                settings(**values), upstream=InMemoryUpstream(ScriptedApp()), poll_engines=False
            )
            assert (application.public.token_meter is not None) is metered
            await application.stop()

    run(scenario())


def test_every_sink_gets_every_record() -> None:
    async def scenario() -> None:
        sinks = [RecordList(), RecordList()]
        upstream = InMemoryUpstream(ScriptedApp())
        application = build(settings(), sinks, upstream, poll_engines=False)
        await AsgiClient(application.public).request("POST", b"/v1/completions", body=b"{}")
        assert [len(sink.records) for sink in sinks] == [1, 1]
        await application.stop()

    run(scenario())


# The engine is watched ---------------------------------------------------------------------------


def test_nothing_is_asked_before_the_start_and_nothing_after_the_end(
    engine: ScriptedEngine,
) -> None:
    async def scenario() -> None:
        application = built()
        await asyncio.sleep(5)
        assert engine.asked == []
        assert (await ready(application))[0] == 503  # nobody knows yet
        await application.start()
        await asyncio.sleep(5)
        assert (await ready(application))[0] == 200
        await application.stop()
        asked = len(engine.asked)
        await asyncio.sleep(5)
        assert len(engine.asked) == asked > 0

    run(scenario())


def test_an_engine_of_which_nothing_is_known_is_tried(engine: ScriptedEngine) -> None:
    async def scenario() -> None:
        engine.answers["/health"] = late(1000)
        application = built()
        await application.start()
        answer = await AsgiClient(application.public).request(
            "POST", b"/v1/completions", body=b"{}"
        )
        assert answer.status == 200
        await application.stop()

    run(scenario())


def test_an_engine_that_is_down_is_refused_for_until_it_is_back(engine: ScriptedEngine) -> None:
    async def scenario() -> None:
        application = built()
        client = AsgiClient(application.public)
        await application.start()
        await asyncio.sleep(2)
        engine.answers["/health"] = refused
        await asyncio.sleep(20)
        answer = await client.request("POST", b"/v1/completions", body=b"{}")
        error = error_of(answer.body)
        assert (answer.status, error["code"]) == (503, "upstream_unavailable")
        assert "connection refused" in error["message"]
        assert "engine.test" not in answer.body.decode(), "a client is not told where"
        code, said = await ready(application)
        assert code == 503
        assert "http://engine.test" in said["reason"]
        assert lines(application.metrics, "sluice_upstream_up")[0].endswith(" 0.0")
        assert lines(application.metrics, "sluice_engine_running") == []

        engine.answers["/health"] = ok()
        back_at = now()
        while (await ready(application))[0] != 200:
            await asyncio.sleep(0.1)
        assert now() - back_at <= 1
        answer = await client.request("POST", b"/v1/completions", body=b"{}")
        assert answer.status == 200
        await application.stop()

    run(scenario())


def test_an_engine_that_refuses_our_key_is_not_ready_and_still_asked(
    engine: ScriptedEngine,
) -> None:
    async def scenario() -> None:
        engine.answers["/v1/models"] = status(401)
        application = built(upstream_api_key="sk-wrong")
        await application.start()
        await asyncio.sleep(5)
        code, said = await ready(application)
        assert code == 503
        assert "401" in said["reason"]
        answer = await AsgiClient(application.public).request(
            "POST", b"/v1/completions", body=b"{}"
        )
        assert answer.status == 200  # what the engine says to it is the client's to see
        await application.stop()

    run(scenario())


def test_the_engines_own_figures_are_on_the_page_with_their_age(engine: ScriptedEngine) -> None:
    async def scenario() -> None:
        application = built()
        await application.start()
        await asyncio.sleep(5)
        engine.answers["/metrics"] = status(500)
        await asyncio.sleep(100)
        label = '{upstream="http://engine.test"}'
        figures = {
            "sluice_upstream_up": "1.0",
            "sluice_engine_running": "3.0",
            "sluice_engine_waiting": "1.0",
            "sluice_engine_kv_cache_usage": "0.25",
        }
        for metric, value in figures.items():
            assert lines(application.metrics, metric) == [f"{metric}{label} {value}"]
        (age,) = lines(application.metrics, "sluice_upstream_metrics_age_seconds")
        assert 99 <= float(age.split()[-1]) <= 102
        await application.stop()

    run(scenario())


def test_without_polling_an_engine_counts_as_ready_and_has_no_figures() -> None:
    async def scenario() -> None:
        upstream = InMemoryUpstream(ScriptedApp())
        application = build(settings(), upstream=upstream, poll_engines=False)
        code, said = await ready(application)
        assert code == 200
        assert said["engines"]["http://engine.test"]["up"] is None
        assert lines(application.metrics, "sluice_upstream_up") == []
        await application.stop()
        assert upstream.closed

    run(scenario())


def test_a_drain_begins_for_the_edge_and_for_the_core() -> None:
    async def scenario() -> None:
        application = built()
        application.begin_drain()
        assert application.drain.begun
        assert application.controller.snapshot().draining
        await application.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("values", "name"),
    [({}, "http://vllm"), ({"redis_url": "redis://127.0.0.1:1/0"}, "http://vllm#10.0.0.1")],
)
def test_gateways_that_share_a_limit_call_an_engine_by_its_address(
    values: dict[str, Any], name: str
) -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(vllm=["10.0.0.1"])
        given = settings(upstream_urls="http://vllm", dns_interval=5, **values)
        fleet = EngineFleet(given, lambda _: InMemoryUpstream(ScriptedApp()), now, poll=False)
        told: list[str] = []
        fleet.set = lambda engines: told.extend(map(str, engines))  # type: ignore[method-assign]
        engines = app._engine_list(given, resolver, fleet)
        await engines.start()
        await engines.stop()
        assert told == [name]

    run(scenario())


TRACEPARENT = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def test_a_trace_passes_as_sent_where_nothing_is_traced() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            await sluice.ask(headers=[TRACEPARENT, (b"tracestate", b"a=1")])
            assert (await sluice.ask()).status == 200
        first, second = engine.seen
        assert first.header("traceparent") == TRACEPARENT[1].decode()
        assert first.header("tracestate") == "a=1"
        assert second.header("traceparent") is None
        assert [record.trace for record in sluice.records] == [None, None]

    run(scenario())


def test_traced_the_engine_hears_of_our_span_in_the_callers_trace() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, otlp_endpoint="http://collector:4318") as sluice:
            await sluice.ask(headers=[TRACEPARENT])
            await sluice.ask()
        first, second = sluice.records
        assert first.trace is not None
        assert first.trace.hex_id == "0af7651916cd43dd8448eb211c80319c"
        assert first.asked_after_s == 0
        assert second.trace is not None
        assert second.trace.parent_id == 0
        for call, record in zip(engine.seen, sluice.records, strict=True):
            assert record.trace is not None
            heard = f"00-{record.trace.hex_id}-{record.trace.engine_span_id:016x}-01"
            assert call.header("traceparent") == heard
        page, _ = sluice.application.metrics.page("application/openmetrics-text")
        assert f'trace_id="{second.trace.hex_id}"'.encode() in page

    run(scenario())


def test_without_a_store_the_limit_is_its_own() -> None:
    async def scenario() -> None:
        application = built()
        assert application.leases is None
        assert lines(application.metrics, "sluice_store_up") == []
        await application.stop()

    run(scenario())


def with_store(store: type[MemoryStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "RedisStore", store)
    monkeypatch.setattr(LeaseKeeper.__init__, "__defaults__", (now,))


def test_with_a_store_every_engine_has_a_lease_and_no_seat_before_it_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores: list[tuple[str, str, str]] = []

    class Store(MemoryStore):
        def __init__(self, url: str, cluster: str, gateway: str) -> None:
            super().__init__(now)
            stores.append((url, cluster, gateway))

    async def scenario() -> None:
        with_store(Store, monkeypatch)
        application = built(max_in_flight=8, redis_url="redis://s/1", cluster="team")
        assert application.controller.snapshot().limit == 0
        await application.start()
        await asyncio.sleep(4)
        assert application.controller.snapshot().limit == 8
        assert lines(application.metrics, "sluice_leased_seats") == [
            'sluice_leased_seats{upstream="http://engine.test"} 8.0'
        ]
        await application.stop()

    run(scenario())
    ((url, cluster, gateway),) = stores
    assert (url, cluster, len(gateway)) == ("redis://s/1", "team", 16)


def test_a_gateway_that_has_no_seat_and_gets_none_is_not_ready_and_one_that_holds_some_is(
    monkeypatch: pytest.MonkeyPatch, engine: ScriptedEngine
) -> None:
    """A load balancer is to send to the others, and who rolls a new version out is to stop."""
    trouble: list[Exception | None] = [StoreAwayError("nobody listens")]

    class Store(MemoryStore):
        def __init__(self, *_: str) -> None:
            super().__init__(now)

        async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
            if trouble[0] is not None:
                raise trouble[0]
            return await super().renew(asked)

    async def scenario() -> None:
        with_store(Store, monkeypatch)
        application = built(max_in_flight=8, redis_url="redis://s/1")
        await application.start()
        await asyncio.sleep(1)
        status, said = await ready(application)
        assert (status, "nobody listens" in said["reason"]) == (503, True)
        trouble[0] = None
        await asyncio.sleep(4)
        assert (await ready(application))[0] == 200
        trouble[0] = StoreAwayError("it has gone")
        await asyncio.sleep(600)
        assert (await ready(application))[0] == 200, "it goes on with the seats that it holds"
        trouble[0] = StoreRefusedError("NOAUTH")
        await asyncio.sleep(2)
        assert (await ready(application))[0] == 200, "nobody else can have been given them yet"
        await asyncio.sleep(2)
        status, said = await ready(application)
        assert (status, "NOAUTH" in said["reason"]) == (503, True)
        public = await AsgiClient(application.public).request("GET", b"/readyz")
        assert (public.status, b"NOAUTH" in public.body) == (503, False)
        trouble[0] = None
        await asyncio.sleep(4)
        assert (await ready(application))[0] == 200
        await application.stop()

    assert engine
    run(scenario())
