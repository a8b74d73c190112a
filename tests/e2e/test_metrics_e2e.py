"""What Prometheus reads while real requests come and go: does it add up, and can it be trusted?

Field cases R72 to R78. The page is compared with what the clients and the engine saw.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import secrets
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
    sse_stream,
)
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.support.gateway_process import GatewayProcess
    from tests.support.metrics_page import Samples

METRICS = request_bytes("/metrics", b"", "GET")
CHAT = "/v1/chat/completions"

# Names, types and labels of the contract that are served by this version.
CONTRACT = {
    "sluice_in_flight": ("gauge", {"upstream"}),
    "sluice_concurrency_limit": ("gauge", {"upstream"}),
    "sluice_queue_depth": ("gauge", set()),
    "sluice_max_queue_depth": ("gauge", set()),
    "sluice_queue_wait_seconds": ("histogram", {"outcome"}),
    "sluice_requests_total": ("counter", {"route", "outcome"}),
    "sluice_shed_total": ("counter", {"reason"}),
    "sluice_arrivals_total": ("counter", {"attempt"}),
    "sluice_request_duration_seconds": ("histogram", {"route"}),
    "sluice_time_to_first_byte_seconds": ("histogram", {"route"}),
    "sluice_upstream_up": ("gauge", {"upstream"}),
    "sluice_upstream_metrics_age_seconds": ("gauge", {"upstream"}),
    "sluice_engine_running": ("gauge", {"upstream"}),
    "sluice_engine_waiting": ("gauge", {"upstream"}),
    "sluice_engine_kv_cache_usage": ("gauge", {"upstream"}),
    "sluice_binding_limit": ("gauge", {"which"}),
    "sluice_draining": ("gauge", set()),
    "sluice_build_info": ("gauge", {"version", "python"}),
}

ENGINE_PAGE = b"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
"""


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=2, max_queue_depth=4, queue_timeout=2) as stand:
        yield stand


def summed(samples: Samples, name: str, **labels: str) -> float:
    wanted = labels.items()
    return sum(
        value for (found, having), value in samples.items() if found == name and wanted <= having
    )


async def engine_page(exchange: Exchange) -> None:
    exchange.respond(ENGINE_PAGE, content_type="text/plain; version=0.0.4")


# The page.


def test_every_metric_of_the_contract_is_there_under_its_name_type_and_labels() -> None:
    """R76: what dashboards and alerts are written against."""

    async def scenario() -> str:
        upstream = ScriptedUpstream()
        upstream.probes = {**upstream.probes, b"/metrics": engine_page}
        async with upstream, gateway(upstream.url, max_in_flight=2) as sluice:
            await ask_once(sluice.port, request_bytes())
            await sluice.until_metric("sluice_engine_running", 3)
            assert await sluice.metric("sluice_engine_kv_cache_usage") == 0.25
            return (await ask_once(sluice.admin_port, METRICS)).body.decode()

    families = {
        family.name: family for family in text_string_to_metric_families(asyncio.run(scenario()))
    }
    for name, (kind, labels) in CONTRACT.items():
        family = families[name.removesuffix("_total") if kind == "counter" else name]
        assert family.type == kind
        assert family.documentation
        assert family.samples, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels


@on_the_stand
async def test_the_page_suits_the_scraper_that_asks(stand: Stand) -> None:
    """Text for those who say nothing, OpenMetrics for Prometheus, and the type says which."""
    port = stand.sluice.admin_port
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    plain = await ask_once(port, METRICS)
    assert (plain.header("content-type") or "").startswith("text/plain; version=")
    openly = await ask_once(port, request_bytes("/metrics", b"", "GET", headers=accept))
    content_type = openly.header("content-type") or ""
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert openly.body.endswith(b"# EOF\n")
    assert list(open_metrics_families(openly.body.decode()))


@on_the_stand
async def test_histograms_reach_from_a_millisecond_to_ten_minutes(stand: Stand) -> None:
    """R76: a p99 must neither stick at 10 s nor begin at 300 ms."""
    await ask_once(stand.sluice.port, request_bytes())
    bounds: dict[str, set[float]] = {}
    for name, labels in await stand.sluice.metrics():
        if name.endswith("_bucket"):
            bounds.setdefault(name, set()).add(float(dict(labels)["le"]))
    assert set(bounds) == {
        "sluice_queue_wait_seconds_bucket",
        "sluice_request_duration_seconds_bucket",
        "sluice_time_to_first_byte_seconds_bucket",
    }
    for found in bounds.values():
        *finite, last = sorted(found)
        assert last == math.inf
        assert finite[0] <= 0.001
        assert finite[-1] >= 600
        # Fine enough everywhere for a quantile to mean something: 40 s is not just "above 10".
        assert max(higher / lower for lower, higher in itertools.pairwise(finite)) <= 2.5


# Does it add up?


@on_the_stand
async def test_counters_never_fall_and_add_up_however_they_are_scraped(stand: Stand) -> None:
    """R72: forty scrapes on connections of their own, while four hundred requests pass."""
    pages: list[Samples] = []

    async def requests(count: int) -> None:
        async with await stand.client() as client:
            for _ in range(count):
                assert (await client.ask(request_bytes())).status == 200

    async def scrapes(count: int) -> None:
        for _ in range(count):
            pages.append(await stand.sluice.metrics())
            await asyncio.sleep(0.005)

    before = await stand.sluice.metrics()
    await asyncio.gather(*(requests(80) for _ in range(5)), scrapes(40))
    pages.append(await stand.sluice.metrics())
    for earlier, later in itertools.pairwise([before, *pages]):
        for sample, value in earlier.items():
            if sample[0].endswith(("_total", "_count", "_sum", "_bucket")):
                assert later[sample] >= value, sample
    for name in ("sluice_requests_total", "sluice_arrivals_total"):
        assert summed(pages[-1], name) - summed(before, name) == 400
    for page in pages:
        assert summed(page, "sluice_in_flight") <= 2
        # One count of everything: the histogram, and the counter beside it.
        ended = sum(
            value
            for (name, labels), value in page.items()
            if name == "sluice_requests_total"
            and dict(labels)["outcome"] not in ("shed", "rejected")
        )
        assert summed(page, "sluice_request_duration_seconds_count") == ended


@on_the_stand
async def test_gauges_say_what_is_true_now(stand: Stand) -> None:
    """R72: seats, not requests; waiting requests, not their seats."""
    stand.upstream.handler = hold = Hold()
    async with (
        await stand.client() as one,
        await stand.client() as two,
        await stand.client() as three,
    ):
        one.send(request_bytes(body={"n": 2}))
        await stand.sluice.until_metric("sluice_in_flight", 2)
        two.send(request_bytes(body={"n": 2}))
        three.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 2)
        assert await stand.sluice.metric("sluice_in_flight") == 2
        assert await stand.sluice.metric("sluice_concurrency_limit") == 2
        assert await stand.sluice.metric("sluice_max_queue_depth") == 4
        hold.release()
        for client in (one, two, three):
            assert (await client.answer()).status == 200
    await stand.sluice.until_idle()


def test_a_gateway_that_was_killed_and_started_again_counts_from_zero() -> None:
    """R73: nothing of the dead process shows, and the engine is rid of its requests."""

    async def scenario() -> None:
        hold = Hold()
        async with ScriptedUpstream(hold) as upstream:
            async with gateway(upstream.url, max_in_flight=2) as killed:
                clients = [await RawClient.connect(killed.port) for _ in range(2)]
                for client in clients:
                    client.send(request_bytes())
                await upstream.until(lambda: upstream.inflight == 2)
                ports = {"port": killed.port, "admin_port": killed.admin_port}
                killed.process.kill()
                await upstream.until(lambda: upstream.aborts == 2, within_s=1)
                for client in clients:
                    client.close()
            async with gateway(upstream.url, max_in_flight=2, **ports) as again:
                samples = await again.metrics()
                for name in ("in_flight", "queue_depth", "requests_total", "arrivals_total"):
                    assert summed(samples, f"sluice_{name}") == 0
                hold.release()
                assert (await ask_once(again.port, request_bytes())).status == 200

    asyncio.run(scenario())


# What became of a request.


@on_the_stand
async def test_a_stream_that_breaks_is_no_success(stand: Stand) -> None:
    """R78: ten answers began with 200 and broke off."""

    async def breaks(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.chunk(b'data: {"n": 0}\n\n')
        await asyncio.sleep(0.02)
        exchange.reset()

    stand.upstream.handler = breaks
    for _ in range(10):
        answer = await ask_once(stand.sluice.port, request_bytes(body={"stream": True}))
        assert (answer.status, answer.complete) == (200, False)
    assert await stand.outcomes() == {"upstream_error": 10}


@on_the_stand
async def test_a_streams_duration_is_that_of_the_whole_stream(stand: Stand) -> None:
    """R78: not the time to its head; that is another histogram."""
    stand.upstream.handler = sse_stream(events=5, interval_s=0.1)
    before = await stand.sluice.metrics()
    await ask_once(stand.sluice.port, request_bytes(CHAT, {"stream": True}))
    await stand.sluice.until_idle()
    samples = await stand.sluice.metrics()

    def observed(name: str) -> float:
        name = f"sluice_{name}_seconds_sum"
        return summed(samples, name, route="chat_completions") - summed(
            before, name, route="chat_completions"
        )

    assert observed("request_duration") >= 0.5
    assert observed("time_to_first_byte") < 0.4


@on_the_stand
async def test_every_request_ends_in_exactly_one_outcome(stand: Stand) -> None:
    """R63, R78: whose doing it was, each kind provoked once, and nothing counted beside it."""
    port, upstream = stand.sluice.port, stand.upstream

    async def ask(target: str = CHAT, method: str = "POST", **headers: str) -> None:
        await ask_once(port, request_bytes(target, b"{}", method, headers))

    await ask()  # ok
    for status in (400, 429, 500):  # client_error, upstream_overloaded, upstream_error
        upstream.handler = json_answer({}, status)
        await ask()
    upstream.handler = close_on_receipt  # upstream_error
    await ask()
    await ask("/sleep")  # rejected
    await ask(CHAT, "DELETE")  # rejected
    await ask_once(port, request_bytes(CHAT, b"no JSON"))  # rejected
    upstream.handler = Hold()
    async with await stand.client() as leaving:  # abandoned
        leaving.send(request_bytes(CHAT, {"n": 2}))
        await upstream.until(lambda: upstream.inflight == 1)
        await ask(CHAT, **{"x-sluice-queue-timeout": "0"})  # shed
    await upstream.until(lambda: upstream.aborts == 1)
    assert await stand.outcomes() == {
        "ok": 1,
        "client_error": 1,
        "upstream_overloaded": 1,
        "upstream_error": 2,
        "rejected": 3,
        "shed": 1,
        "abandoned": 1,
    }


@on_the_stand
async def test_first_attempts_and_retries_are_told_apart(stand: Stand) -> None:
    """R72: retry amplification is their sum over the first. Open routes are not counted."""
    before = await stand.sluice.metrics()
    for retry in ("0", "1", "2", "nonsense"):
        headers = {"x-stainless-retry-count": retry}
        await ask_once(stand.sluice.port, request_bytes(headers=headers))
    await ask_once(stand.sluice.port, request_bytes("/v1/models", b"", "GET"))
    after = await stand.sluice.metrics()

    def grown(attempt: str) -> float:
        name = "sluice_arrivals_total"
        return summed(after, name, attempt=attempt) - summed(before, name, attempt=attempt)

    assert (grown("first"), grown("retry")) == (2, 2)


@on_the_stand
async def test_waits_are_observed_by_how_they_ended(stand: Stand) -> None:
    """R76: admitted at once, admitted after a wait, timed out, left."""
    before = await stand.sluice.metrics()
    stand.upstream.handler = hold = Hold()
    brief = {"x-sluice-queue-timeout": "0.1"}
    async with await stand.client() as running, await stand.client() as waiting:
        running.send(request_bytes(body={"n": 2}))
        await stand.upstream.until(lambda: stand.upstream.inflight == 1)
        waiting.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 1)
        await ask_once(stand.sluice.port, request_bytes(headers=brief))
        async with await stand.client() as leaving:
            leaving.send(request_bytes())
            await stand.sluice.until_metric("sluice_queue_depth", 2)
        await stand.sluice.until_metric("sluice_queue_depth", 1)
        hold.release()
        await running.answer()
        await waiting.answer()
    await stand.sluice.until_idle()
    after = await stand.sluice.metrics()

    def grown(outcome: str, what: str = "count") -> float:
        name = f"sluice_queue_wait_seconds_{what}"
        return summed(after, name, outcome=outcome) - summed(before, name, outcome=outcome)

    assert [grown(outcome) for outcome in ("admitted", "timeout", "abandoned")] == [2, 1, 1]
    assert 0.09 <= grown("timeout", "sum") < 1.0


# Labels.


def series(samples: Samples) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {(name, labels) for name, labels in samples if name.startswith("sluice_")}


@on_the_stand
async def test_a_client_cannot_add_a_series(stand: Stand) -> None:
    """R72 and shape 8: paths, methods, models, keys, ids and tenants of a client's choosing."""
    port = stand.sluice.port

    async def ask(canary: str) -> None:
        headers = {
            "Authorization": f"Bearer {canary}",
            "x-request-id": canary,
            "x-tenant": canary,
            "x-sluice-priority": canary,
            "User-Agent": canary,
        }
        body = {"model": canary, "user": canary, "prompt": canary}
        for target, method in (
            ("/v1/completions", "POST"),
            (f"/{canary}", "POST"),
            (f"/v1/{canary}", "GET"),
            (f"/v1/models/{canary}", "GET"),
            (f"/v1/responses/{canary}", "GET"),
            (f"/v1/responses/{canary}/cancel", "POST"),
            (f"/v1/models?{canary}=1", "GET"),
            ("/v1/completions", "PATCH"),
        ):
            await ask_once(port, request_bytes(target, body, method, headers))

    await ask("first")
    known = series(await stand.sluice.metrics())
    canaries = [f"canary{secrets.token_hex(4)}" for _ in range(25)]
    for canary in canaries:
        await ask(canary)
    assert series(await stand.sluice.metrics()) == known
    page = (await ask_once(stand.sluice.admin_port, METRICS)).body
    assert b"canary" not in page
    assert b"first" in page  # attempt="first"; and nothing of the request that said so
    assert page.count(b'"first"') == 1


# The engine's own figures.


def test_what_the_engine_does_not_say_is_absent_and_not_zero() -> None:
    """Absent is never zero: without a metrics page, with a bare one, and after its death."""
    figures = ("running", "waiting", "kv_cache_usage")

    async def shown(sluice: GatewayProcess) -> set[str]:
        names = {name for name, _ in await sluice.metrics()}
        return {figure for figure in figures if f"sluice_engine_{figure}" in names}

    async def running_only(exchange: Exchange) -> None:
        exchange.respond(ENGINE_PAGE.splitlines(keepends=True)[1], content_type="text/plain")

    async def scenario() -> None:
        async with ScriptedUpstream() as upstream, gateway(upstream.url, max_in_flight=2) as sluice:
            silent = upstream.probes
            assert await sluice.metric("sluice_upstream_up") == 1
            assert await shown(sluice) == set()
            upstream.probes = {**silent, b"/metrics": running_only}
            await sluice.until_metric("sluice_engine_running", 3)
            assert await shown(sluice) == {"running"}
            upstream.probes = {**silent, b"/metrics": engine_page}
            await sluice.until_metric("sluice_engine_kv_cache_usage", 0.25)
            assert await shown(sluice) == set(figures)
            upstream.probes = silent  # its page is gone; what was read stays, and ages
            polled = len(upstream.probed)
            await upstream.until(lambda: len(upstream.probed) >= polled + 4)
            assert await shown(sluice) == set(figures)
            assert await sluice.metric("sluice_upstream_metrics_age_seconds") > 0.5
            upstream.probes = {**silent, b"/health": json_answer(status=503)}
            await sluice.until_metric("sluice_upstream_up", 0)
            assert await shown(sluice) == set()

    asyncio.run(scenario())


# The lines that a request leaves.


def access_lines(log: list[str]) -> list[Mapping[str, object]]:
    return [line for line in map(json.loads, log) if line.get("logger") == "access"]


def test_each_request_leaves_one_line_in_the_log_and_one_in_the_trace(tmp_path: Path) -> None:
    """R78, R14: what an incident is reconstructed from, by the same request id everywhere."""
    trace = tmp_path / "trace.jsonl"

    async def scenario() -> list[str]:
        settings = {"max_in_flight": 1, "max_queue_depth": 0, "trace_file": trace}
        async with ScriptedUpstream() as upstream, gateway(upstream.url, **settings) as sluice:

            async def ask(name: str, target: str = CHAT) -> None:
                headers = {"x-request-id": name}
                await ask_once(
                    sluice.port, request_bytes(target, {"stream": True}, headers=headers)
                )

            await ask("served")
            await ask("unknown", "/sleep")
            upstream.handler = Hold()
            async with await RawClient.connect(sluice.port) as leaving:
                leaving.send(request_bytes(CHAT, headers={"x-request-id": "left"}))
                await upstream.until(lambda: upstream.inflight == 1)
                await ask("refused")
            await sluice.until_idle()
            assert [request.header(b"x-request-id") for request in upstream.seen] == [
                b"served",
                b"left",
            ]
        return sluice.log

    lines = {str(line["request_id"]): line for line in access_lines(asyncio.run(scenario()))}
    told = {name: (line["outcome"], line["status"], line["reason"]) for name, line in lines.items()}
    assert told == {
        "served": ("ok", 200, ""),
        "unknown": ("rejected", 404, "unknown_path"),
        "refused": ("shed", 503, "queue_full"),
        "left": ("abandoned", 0, ""),
    }
    assert lines["served"]["stream"] is True
    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    assert Counter(record["outcome"] for record in traced) == {
        "ok": 1, "rejected": 1, "shed": 1, "abandoned": 1,
    }  # fmt: skip
