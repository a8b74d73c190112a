"""One request at a time: what is refused, what is forwarded as what, and how it is recorded.

Many at a time, and anything that takes a while, is in tests/scenarios.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from proxy.admission.controller import AdmissionController
from proxy.edge.open_routes import OpenRoutes
from proxy.edge.request_headers import HeaderReader
from proxy.edge.visit import Visit
from proxy.upstream.address import UpstreamAddress
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from proxy.vllm.served_models import ServedModel
from tests.support.admission import RecordingObserver, one_upstream
from tests.support.asgi_transport import AsgiClient, NoResponseError
from tests.support.client_messages import ClientMessages, SentMessages
from tests.support.fake_wire import Wire
from tests.support.gateway_in_memory import ENGINE_URL, Sluice, gateway, leave
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import (
    JSON,
    SSE,
    Hold,
    ScriptedApp,
    after,
    answer,
    dies,
    error_of,
    responds,
    silent,
    stream,
)
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.admission.request import AdmissionRequest
    from proxy.edge.engine import Engine
    from proxy.upstream.port import UpstreamRequest, UpstreamResponse
    from tests.support.asgi_transport import AsgiExchange, Headers, Response
    from tests.support.scripted_app import Handler

KEY = "sk-client"
BEARER = (b"authorization", b"Bearer sk-client")
NEVER_ENDS: list[bytes | float] = [b"{", 10_000.0, b"}"]
A_MODEL = b"/v1/models/org%2Fname?a=b%20c&a=/../"


async def ask_one(handler: Handler = answer, headers: Headers = ()) -> Response:
    async with gateway(ScriptedApp(handler)) as sluice:
        return await sluice.ask(headers=headers)


def check_refused(answer: Response, status: int, code: str) -> dict[str, Any]:
    error = error_of(answer.body)
    assert (answer.status, error["code"], answer.header("x-sluice-reason")) == (status, code, code)
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("x-request-id")
    assert answer.completed
    return error


# What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("POST", b"/sleep", 404, "unknown_path"),
        ("GET", b"/v1/../sleep", 404, "unknown_path"),
        ("GET", b"/metrics", 404, "unknown_path"),
        ("GET", b"/docs", 404, "unknown_path"),
        ("POST", b"/invocations", 404, "unknown_path"),
        ("GET", b"/healthz/", 404, "unknown_path"),
        ("OPTIONS", b"*", 404, "unknown_path"),
        ("GET", b"/v1/completions", 405, "method_not_allowed"),
        ("OPTIONS", b"/v1/completions", 405, "method_not_allowed"),
        ("HEAD", b"/v1/models", 405, "method_not_allowed"),
    ],
)
def test_what_is_not_served_is_refused_at_once_and_reaches_no_engine(
    method: str, target: bytes, status: int, code: str
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            answer = await sluice.ask(method=method, target=target)
            check_refused(answer, status, code)
            assert engine.seen == []
            assert sluice.outcomes() == {"rejected": 1}

    run(scenario())


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", b"/v1/completions"),
        ("GET", b"/v1/models"),
        ("GET", b"/v1/completions"),
        ("OPTIONS", b"/v1/completions"),
        ("POST", b"/sleep"),
        ("GET", b"/docs"),
        ("BREW", b"/v1/responses/x/cancel"),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer wrong")],
        [BEARER, BEARER],
        [(b"x-sluice-queue-timeout", b"soon")],
        [(b"access-control-request-method", b"POST")],
    ],
)
def test_without_a_key_nothing_is_told_but_that(
    method: str, target: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, api_keys=KEY, max_in_flight=1, max_queue_depth=0) as sluice:
            held = sluice.start(headers=[BEARER])
            engine.handler = silent
            await settle()
            exchange = sluice.start(NEVER_ENDS, method=method, target=target, headers=headers)
            head = await exchange.head()
            assert (head.status, now()) == (401, 0)  # the body was not read
            assert head.header("www-authenticate") == "Bearer"
            exchange.disconnect()
            held.disconnect()
            await held.ended()
            await exchange.ended()
            assert len(engine.seen) <= 1
            assert sluice.outcomes()["rejected"] == 1

    run(scenario())


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
def test_probes_need_no_key(path: bytes) -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), api_keys=KEY) as sluice:
            assert (await sluice.get(path)).status == 200
            assert sluice.outcomes() == {}

    run(scenario())


def test_a_bad_header_of_ours_is_named() -> None:
    async def scenario() -> None:
        id_ = (b"x-request-id", b"mine")
        answer = await ask_one(headers=[(b"x-sluice-queue-timeout", b"soon"), id_])
        error = check_refused(answer, 400, "bad_request")
        assert "x-sluice-queue-timeout" in error["message"]
        assert answer.header("x-request-id") == "mine"

    run(scenario())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"{}"'])
def test_a_body_that_cannot_be_measured_is_refused(body: bytes) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            check_refused(await sluice.ask(body), 400, "bad_request")
            assert engine.seen == []
            assert sluice.outcomes() == {"rejected": 1}

    run(scenario())


@pytest.mark.parametrize("n", ["0", "-1", '"4"', "4.0", "1e9", "true", "null", "1" * 400])
def test_odd_counts_are_no_crash(n: str) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            answer = await sluice.ask(b'{"n": %s}' % n.encode())
            assert answer.status in (200, 400)
            assert len(engine.seen) == (answer.status == 200)

    run(scenario())


def test_too_many_sequences_are_refused_when_there_is_a_bound() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, max_seats_per_request=4) as sluice:
            assert (await sluice.ask({"n": 4})).status == 200
            error = check_refused(await sluice.ask({"n": 5}), 400, "too_many_sequences")
            assert "5 sequences" in error["message"]
            assert len(engine.seen) == 1

    run(scenario())


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_is_refused_before_the_rest_is_read(declared: bool) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, max_body_bytes=100) as sluice:
            length = [(b"content-length", b"101")] if declared else []
            upload: list[bytes | float] = [b"x" * 101, 1.0, b"x"]
            exchange = sluice.start(upload, headers=length)
            head = await exchange.head()
            assert (head.status, now()) == (413, 0)
            assert head.header("connection") == "close"
            answer = await exchange.response()
            check_refused(answer, 413, "body_too_large")
            assert engine.seen == []

    run(scenario())


def test_a_body_as_large_as_the_limit_passes_whole() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        body = json.dumps({"prompt": "x" * 3_000_000}).encode()
        async with gateway(engine, max_body_bytes=len(body)) as sluice:
            assert (await sluice.ask(body)).status == 200
            assert engine.seen[0].body == body

    run(scenario())


# What is refused before any task runs ----------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "headers", "status", "code"),
    [
        (b"/v1/completions", b"", 503, "queue_full"),
        (b"/v1/completions", b"x-sluice-priority: urgent\r\n", 400, "bad_request"),
        (b"/sleep", b"", 404, "unknown_path"),
    ],
)
def test_on_our_own_server_a_refusal_is_there_at_once_and_recorded_as_ever(
    target: bytes, headers: bytes, status: int, code: str
) -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(Hold()), max_in_flight=1, max_queue_depth=0) as sluice:
            held = await sluice.hold_seats(1)
            wire = Wire(sluice.application.public)
            sluice.started += 1
            wire.receives(
                b"POST %b HTTP/1.1\r\nhost: x\r\nx-request-id: mine\r\n%b"
                b"content-length: 100\r\n\r\n" % (target, headers)
            )
            head, _, body = wire.sent.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert b"\r\nx-request-id: mine" in head
            assert error_of(body)["code"] == code
            record = sluice.records[-1]
            assert (record.status, record.reason, record.request_id) == (status, code, "mine")
            wire.client_leaves()
            await leave(*held)

    run(scenario())


def test_on_our_own_server_who_is_let_in_is_counted_once() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            wire = Wire(sluice.application.public)
            for target in (b"/v1/completions", b"/v1/models", b"/healthz"):
                method = b"POST" if target == b"/v1/completions" else b"GET"
                wire.receives(
                    b"%b %b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}" % (method, target)
                )
                await wire.done()
            assert wire.sent.count(b"HTTP/1.1 200 OK") == 3
            sluice.started = 2
            assert sluice.metric("sluice_arrivals_total") == 1
            wire.client_leaves()

    run(scenario())


def test_on_our_own_server_a_mistake_of_ours_is_a_500_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a mistake")

    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            wire = Wire(sluice.application.public)
            monkeypatch.setattr(sluice.application.controller, "reject_early", fail)
            sluice.started = 1
            wire.receives(
                b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
            )
            await wire.done()
            assert wire.sent.startswith(b"HTTP/1.1 500 ")
            assert "a mistake" in caplog.text

    run(scenario())


# What is forwarded -----------------------------------------------------------------------------


def test_method_path_query_body_and_repeated_headers_reach_the_engine_as_sent() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        body = b'{"prompt": "\\u00e4", "unknown": [1, 2.50, {}], "prompt": "again"}'
        sent = [
            (b"x-twice", b"1"),
            (b"openai-organization", b"org"),
            (b"x-twice", b"2"),
            (b"authorization", b"Bearer theirs"),
            (b"content-type", b"Application/JSON;charset = utf-8"),
        ]
        async with gateway(engine) as sluice:
            await sluice.ask(body, target=b"/v1/completions?x=%2e%2e/&y", headers=sent)
        (call,) = engine.seen
        assert call.scope["method"] == "POST"
        assert call.target == b"/v1/completions?x=%2e%2e/&y"
        assert call.body == body
        assert [field for field in call.headers if field in sent] == sent
        assert call.header("host") == "engine.test"

    run(scenario())


def test_a_path_prefix_of_the_engine_comes_before_the_path() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, upstream_urls="http://engine.test/east/v1/") as sluice:
            await sluice.get(A_MODEL)
        assert engine.seen[0].target == b"/east" + A_MODEL

    run(scenario())


def test_what_belongs_to_one_hop_goes_no_further() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(responds(200, headers=[JSON, (b"keep-alive", b"5"), (b"x-a", b"1")]))
        async with gateway(engine) as sluice:
            hop = [(b"connection", b"keep-alive, x-hop"), (b"x-hop", b"1"), (b"te", b"trailers")]
            answer = await sluice.ask([b"{", b"}"], headers=hop)
        names = {name for name, _ in engine.seen[0].headers}
        assert not names & {b"connection", b"x-hop", b"te", b"transfer-encoding"}
        assert answer.header("keep-alive") is None
        assert answer.header("x-a") == "1"

    run(scenario())


@pytest.mark.parametrize(
    ("client_key", "engine_key", "expected"),
    [
        (None, None, "Bearer sk-client"),
        (None, "sk-engine", "Bearer sk-engine"),
        (KEY, None, None),
        (KEY, "sk-engine", "Bearer sk-engine"),
    ],
)
def test_which_key_the_engine_sees(
    client_key: str | None, engine_key: str | None, expected: str | None
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        keys = {"api_keys": client_key, "upstream_api_key": engine_key}
        async with gateway(engine, **{k: v for k, v in keys.items() if v is not None}) as sluice:
            for target, method in [(b"/v1/completions", "POST"), (b"/v1/models", "GET")]:
                answer = await sluice.ask(target=target, method=method, headers=[BEARER])
                assert answer.status == 200
        assert [call.header("authorization") for call in engine.seen] == [expected] * 2

    run(scenario())


@pytest.mark.parametrize("sent", [b"req-7", b"x" * 129, None])
def test_one_request_id_is_in_every_place(sent: bytes | None) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(responds(200, headers=[JSON, (b"X-Request-Id", b"engine's own")]))
        async with gateway(engine) as sluice:
            answer = await sluice.ask(headers=[(b"x-request-id", sent)] if sent else [])
            ids = [value.decode() for name, value in answer.head.headers if name == b"x-request-id"]
            assert len(ids) == 1
            assert (ids[0] == "req-7") is (sent == b"req-7")
            assert engine.seen[0].header("x-request-id") == ids[0]
            assert [record.request_id for record in sluice.records] == ids

    run(scenario())


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("GET", A_MODEL, "model"),
        ("GET", b"/version", "version"),
        ("POST", b"/tokenize", "tokenize"),
        ("DELETE", b"/v1/responses/r_1", "response"),
        ("POST", b"/v1/responses/r_1/cancel", "response_cancel"),
        ("POST", b"/v1/chat/completions/render", "render"),
        ("POST", b"/cohere/v2/chat/render", "render"),
    ],
)
def test_open_routes_pass_without_a_seat_and_with_any_body(
    method: str, target: bytes, name: str
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(Hold())
        async with gateway(engine, max_in_flight=1, max_queue_depth=0) as sluice:
            (held,) = await sluice.hold_seats(1)
            hold, engine.handler = engine.handler, responds(200, b"\x00\xff", [(b"x", b"y")])
            answer = await sluice.ask(b"not json \xff", method=method, target=target)
            assert (answer.status, answer.body) == (200, b"\x00\xff")
            assert answer.header("server-timing") is None
            assert engine.seen[1].target == target
            assert engine.seen[1].body == b"not json \xff"
            assert sluice.metric("sluice_requests_total", route=name, outcome="ok") == 1
            assert sluice.metric("sluice_arrivals_total") == 1  # the held one
            hold.release()
            await held.response()

    run(scenario())


def test_a_preflight_is_the_engines_to_answer() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(responds(200, b"OK", [(b"access-control-allow-origin", b"*")]))
        async with gateway(engine) as sluice:
            asks = [(b"origin", b"https://a"), (b"access-control-request-method", b"POST")]
            answer = await sluice.ask(b"", method="OPTIONS", headers=asks)
            assert answer.header("access-control-allow-origin") == "*"
            assert sluice.metric("sluice_requests_total", route="preflight") == 1
            unknown = await sluice.ask(b"", method="OPTIONS", target=b"/sleep", headers=asks)
            check_refused(unknown, 404, "unknown_path")
            assert len(engine.seen) == 1

    run(scenario())


def test_an_exposed_path_passes() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, expose="GET /load") as sluice:
            assert (await sluice.get(b"/load?x=1")).status == 200
            assert engine.seen[0].target == b"/load?x=1"
            assert sluice.metric("sluice_requests_total", route="exposed") == 1

    run(scenario())


def test_a_response_in_the_background_is_no_way_round_the_gate() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            answer = await sluice.ask({"input": "x", "background": True}, target=b"/v1/responses")
            check_refused(answer, 400, "bad_request")
            assert engine.seen == []

    run(scenario())


# What comes back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (207, "ok"),
        (400, "client_error"),
        (401, "client_error"),
        (403, "client_error"),
        (404, "client_error"),
        (413, "client_error"),
        (422, "client_error"),
        (429, "upstream_overloaded"),
        (500, "upstream_error"),
        (503, "upstream_overloaded"),
        (504, "upstream_error"),
    ],
)
@pytest.mark.parametrize("streams", [True, False])
def test_the_engines_answer_passes_as_it_is(status: int, outcome: str, streams: bool) -> None:
    async def scenario() -> None:
        body = b'{"error":"Unauthorized"} \xff'
        fields = [
            (
                b"content-type",
                b"Text/Event-Stream ; charset=UTF-8" if streams else b"application/json",
            ),
            (b"Retry-After", b"17"),
            (b"set-cookie", b"a=1"),
            (b"set-cookie", b"b=2"),
            (b"X-Accel-Buffering", b"no"),
        ]
        engine = ScriptedApp(responds(status, body, fields))
        async with gateway(engine) as sluice:
            answer = await sluice.ask({"stream": streams})
            assert (answer.status, answer.body) == (status, body)
            assert [field for field in answer.head.headers if field in fields] == fields
            assert answer.header("x-sluice-reason") is None
            assert answer.header("server-timing") == "queue;dur=0.0"
            assert len(engine.seen) == 1  # a status is never retried
            assert sluice.outcomes() == {outcome: 1}
            assert sluice.sheds() == {}
            assert sluice.records[0].stream is streams

    run(scenario())


@pytest.mark.parametrize(("status", "is_added"), [(503, True), (429, False), (500, False)])
def test_an_engines_503_that_does_not_say_when_to_come_back_gets_ours(
    status: int, is_added: bool
) -> None:
    async def scenario() -> None:
        answer = await ask_one(responds(status))
        if is_added:
            assert 1 <= int(answer.header("retry-after") or "") <= 55
            assert 1000 <= int(answer.header("retry-after-ms") or "") <= 55_000
        else:
            assert answer.header("retry-after") is None

    run(scenario())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UpstreamConnectError("connection refused"), 502),
        (UpstreamProtocolError("bad status line"), 502),
        (UpstreamClosedError("closed"), 502),
        (UpstreamTimeoutError("silent for 600 s"), 504),
    ],
)
def test_an_engine_that_cannot_be_talked_to_is_an_answer_of_ours(
    error: UpstreamError, status: int
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            sluice.upstream.fails_with = error
            answer = await sluice.ask()
            said = check_refused(answer, status, error.code)
            assert said["type"] == "upstream_error"
            assert str(error) in said["message"]
            assert sluice.outcomes() == {"upstream_error": 1}
            sluice.upstream.fails_with = None
            await sluice.probe_capacity(engine)

    run(scenario())


def test_an_engine_that_hangs_up_instead_of_answering_is_asked_once() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(dies)
        async with gateway(engine) as sluice:
            check_refused(await sluice.ask(), 502, "upstream_closed")
            assert len(engine.seen) == 1

    run(scenario())


def test_a_failure_inside_the_gateway_is_a_500_and_gives_the_seat_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Crashing(InMemoryUpstream):
        @asynccontextmanager
        async def exchange(self, request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
            if not self.sent:
                self.sent.append(request)
                raise RuntimeError("secret of the inside")
            async with super().exchange(request) as response:
                yield response

    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, upstream=Crashing(engine)) as sluice:
            answer = await sluice.ask()
            check_refused(answer, 500, "internal_error")
            assert b"secret" not in answer.body
            assert answer.header("connection") == "close"
            await sluice.probe_capacity(engine)

    run(scenario())
    assert "secret of the inside" in caplog.text


def test_a_failure_over_the_head_has_a_request_id_to_look_up_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Crashing(HeaderReader):
        def read(self, fields: object) -> NoReturn:  # noqa: ARG002 - as the real one
            raise MemoryError

    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            public = sluice.application.public
            doorman = replace(public.doorman, header_reader=Crashing())
            sluice.client = AsgiClient(replace(public, doorman=doorman))
            answers = [await sluice.ask() for _ in range(2)]
            for answer in answers:
                check_refused(answer, 500, "internal_error")
            first, second = (answer.header("x-request-id") or "" for answer in answers)
            assert len(first) == len(second) == 32
            assert first != second
            assert [record.request_id for record in sluice.records] == [first, second]
            assert f"request {first} failed" in caplog.text

    run(scenario())


# How it is written down ------------------------------------------------------------------------


def test_a_request_is_recorded_with_all_that_is_known() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(2.0, stream(2, interval_s=1.5)))
        async with gateway(engine) as sluice:
            body = {"prompt": ["a", "b"], "stream": True}
            retry = [(b"x-stainless-retry-count", b"2")]
            answer = await sluice.ask(body, headers=retry)
            (record,) = sluice.records
        assert record.outcome == "ok"
        assert (record.method, record.route, record.status) == ("POST", "completions", 200)
        assert (record.duration_s, record.ttfb_s, record.queue_wait_s) == (5.0, 2.0, 0.0)
        assert (record.seats, record.attempt, record.stream) == (2, 2, True)
        assert record.body_bytes == len(json.dumps(body))
        assert record.response_bytes == len(answer.body)
        assert (record.upstream, record.reason) == (ENGINE_URL, "")

    run(scenario())


def test_a_task_cancelled_in_the_middle_of_an_answer_is_no_success() -> None:
    """As a server does with what outlives its own shutdown."""

    async def scenario() -> None:
        engine = ScriptedApp(Hold(start=True))
        async with gateway(engine) as sluice:
            exchange = sluice.start({"stream": True})
            await exchange.head()
            await asyncio.sleep(1)
            exchange.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exchange.ended()
            assert sluice.outcomes() == {"abandoned": 1}
            await settle()
            assert engine.aborts == 1

    run(scenario())


def test_a_client_that_hangs_up_on_the_last_byte_has_its_answer() -> None:
    """However long the engine's connection takes to be put away after it."""

    class Unhurried(InMemoryUpstream):
        @asynccontextmanager
        async def exchange(self, request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
            async with super().exchange(request) as response:
                yield response
                await asyncio.sleep(0.5)

    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, upstream=Unhurried(engine)) as sluice:
            exchange = sluice.start()
            answer = await exchange.response()
            assert answer.status == 200
            assert sluice.outcomes() == {"ok": 1}

    run(scenario())


@pytest.mark.parametrize(
    ("handler", "ending"),
    [
        (responds(200), "complete"),
        (responds(400), "complete"),
        (responds(500), "drop"),
        (responds(429), "drop"),
        (responds(503), "drop"),
        (dies, "drop"),
        (stream(2, breaks_off=True), "drop"),
    ],
)
def test_the_core_hears_how_the_engine_did(handler: Handler, ending: str) -> None:
    async def scenario() -> None:
        observer = RecordingObserver()
        async with gateway(ScriptedApp(handler)) as sluice:
            with_observer(sluice, observer)
            await sluice.start().ended()
            assert observer.of("released") == [f" {ending}"]

    run(scenario())


def test_a_client_that_leaves_says_nothing_about_the_engine() -> None:
    async def scenario() -> None:
        observer = RecordingObserver()
        async with gateway(ScriptedApp(silent)) as sluice:
            with_observer(sluice, observer)
            exchange = sluice.start()
            await asyncio.sleep(1)
            exchange.disconnect()
            await exchange.ended()
            assert observer.of("released") == [" ignore"]

    run(scenario())


def with_observer(sluice: Sluice, observer: RecordingObserver) -> None:
    """Puts a core into the gateway that tells this observer what happens."""
    clock = asyncio.get_running_loop().time
    controller = AdmissionController({ENGINE_URL: one_upstream(2).popitem()[1]}, 4, clock, observer)
    sluice.client = AsgiClient(replace(sluice.application.public, controller=controller))


@pytest.mark.parametrize(
    ("handler", "heard"),
    [
        (responds(200), [None]),
        (responds(400), [None]),
        (responds(429), [None]),
        (responds(500), [500]),
        (responds(503), [503]),
        (dies, ["upstream_closed"]),
        (stream(2, breaks_off=True), ["upstream_closed"]),
    ],
)
def test_the_engine_hears_how_it_did(handler: Handler, heard: list[object]) -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(handler)) as sluice:
            reports = reports_of(sluice)
            await sluice.start().ended()
            assert [getattr(report, "code", report) for report in reports] == heard

    run(scenario())


def test_nobody_reports_on_an_engine_whose_client_left_or_that_gave_no_seat() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine) as sluice:
            reports = reports_of(sluice)
            (left,) = await sluice.hold_seats(1)
            await leave(left)
            engine.handler = responds(500)
            await sluice.get(b"/v1/models")
            assert reports == []

    run(scenario())


def reports_of(sluice: Sluice) -> list[object]:
    """What the engine is told, from now on."""
    reports: list[object] = []
    engines = sluice.application.fleet.engines
    engines[ENGINE_URL] = replace(engines[ENGINE_URL], report=reports.append)
    return reports


# Several engines -------------------------------------------------------------------------------

TWO = "http://one.test,http://two.test"


class Hosts(InMemoryUpstream):
    """Several engines that are one app: `gone` are those to which nobody can connect, which
    takes so many seconds to find out. `tried` lists where requests went."""

    def __init__(self, app: ScriptedApp, gone_after_s: float = 0.0) -> None:
        super().__init__(app)
        self.gone: set[str] = set()
        self.tried: list[str] = []
        self._gone_after_s = gone_after_s

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
        host = dict(request.headers)[b"host"].decode()
        self.tried.append(host)
        if host in self.gone:
            await asyncio.sleep(self._gone_after_s)
            raise UpstreamConnectError(f"{host}: connection refused")
        async with super().exchange(request) as response:
            yield response


@asynccontextmanager
async def two_engines(hosts: Hosts, engine: ScriptedApp, **values: object) -> AsyncIterator[Sluice]:
    async with gateway(engine, upstream=hosts, upstream_urls=TWO, **values) as sluice:
        yield sluice


async def one_gone(sluice: Sluice, engine: ScriptedApp, hosts: Hosts) -> list[AsgiExchange]:
    """Two requests: the first meets an engine that is gone, the second is held by the other."""
    engine.handler = Hold()
    hosts.gone = {"one.test", "two.test"}
    first = sluice.start(client_id="first")
    await settle()
    hosts.gone = {hosts.tried[0]}
    second = sluice.start(client_id="second")
    await settle()
    return [first, second]


def test_requests_go_to_every_engine() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(Hold())
        hosts = Hosts(engine)
        async with two_engines(hosts, engine, max_in_flight=3) as sluice:
            held = await sluice.hold_seats(6)
            assert sorted(hosts.tried) == ["one.test"] * 3 + ["two.test"] * 3
            await leave(*held)

    run(scenario())


def test_a_request_whose_engine_cannot_be_connected_to_goes_to_another() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine)
        async with two_engines(hosts, engine) as sluice:
            hosts.gone = {"one.test"}
            answers = [await sluice.ask() for _ in range(30)]
            assert {answer.status for answer in answers} == {200}
            assert hosts.tried.count("one.test") == 1  # it is taken out
            assert {record.upstream for record in sluice.records} == {"http://two.test"}
            assert sluice.outcomes() == {"ok": 30}

    run(scenario())


def test_when_none_can_be_connected_to_each_is_tried_once_and_the_last_ones_error_told() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine)
        async with two_engines(hosts, engine) as sluice:
            hosts.gone = {"one.test", "two.test"}
            said = check_refused(await sluice.ask(), 502, "upstream_connect")
            assert sorted(hosts.tried) == ["one.test", "two.test"]
            assert hosts.tried[1] in said["message"]
            assert sluice.outcomes() == {"upstream_error": 1}

    run(scenario())


def test_out_of_descriptors_no_other_engine_is_tried() -> None:
    """None could be reached, and each would be taken for dead."""

    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, upstream_urls=TWO) as sluice:
            cause = OSError(errno.EMFILE, "Too many open files")
            sluice.upstream.fails_with = UpstreamConnectError("too many open files", cause)
            for _ in range(3):
                check_refused(await sluice.ask(), 502, "upstream_connect")
            assert not any(
                one.suspended for one in sluice.application.controller.snapshot().upstreams
            )
            assert sluice.outcomes() == {"upstream_error": 3}

    run(scenario())


@pytest.mark.parametrize("error", [UpstreamClosedError("x"), UpstreamTimeoutError("x")])
def test_what_an_engine_may_have_read_goes_to_no_other(error: UpstreamError) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, upstream_urls=TWO) as sluice:
            sluice.upstream.fails_with = error
            check_refused(await sluice.ask(), 504 if "Timeout" in repr(error) else 502, error.code)
            assert sluice.outcomes() == {"upstream_error": 1}

    run(scenario())


def test_who_waits_gets_no_seat_in_an_engine_that_has_just_failed() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine, gone_after_s=1.0)
        async with two_engines(hosts, engine, max_in_flight=1) as sluice:
            exchanges = await one_gone(sluice, engine, hosts)
            exchanges.append(sluice.start(client_id="waits"))
            await asyncio.sleep(2)
            assert len(hosts.tried) == 2
            assert sluice.queue_depth == 2
            engine.handler.release()
            engine.handler = answer
            assert [(await one.response()).status for one in exchanges] == [200] * 3
            assert engine.seen_ids() == ["second", "waits", "first"]

    run(scenario())


def test_a_request_that_moves_waits_no_longer_than_it_may() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine, gone_after_s=1.0)
        async with two_engines(hosts, engine, max_in_flight=1, queue_timeout=3) as sluice:
            first, second = await one_gone(sluice, engine, hosts)
            refused = await first.response()
            assert (
                "The request waited 2.00 s"
                in check_refused(refused, 503, "queue_timeout")["message"]
            )
            assert now() == 3
            await leave(second)
            assert sluice.outcomes() == {"shed": 1, "abandoned": 1}

    run(scenario())


def test_time_in_the_queue_is_that_of_both_waits() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        hosts = Hosts(engine)
        async with two_engines(hosts, engine, max_in_flight=1) as sluice:
            (soon,) = await sluice.hold_seats(1)
            engine.handler = after(3.0)
            (late,) = await sluice.hold_seats(1)
            moved = sluice.start()
            await settle()
            hosts.gone = {hosts.tried[0]}
            answered = await moved.response()
            assert answered.header("server-timing") == "queue;dur=3000.0"
            assert [(await one.response()).status for one in (soon, late)] == [200, 200]
            assert sluice.records[-1].queue_wait_s == 3.0

    run(scenario())


@pytest.mark.parametrize("leaves", [True, False])
def test_a_request_that_moves_can_end_while_it_waits_again(leaves: bool) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine, gone_after_s=1.0)
        async with two_engines(hosts, engine, max_in_flight=1) as sluice:
            first, second = await one_gone(sluice, engine, hosts)
            await asyncio.sleep(2)
            assert sluice.queue_depth == 1
            if leaves:
                await leave(first)
                assert sluice.outcomes() == {"abandoned": 1}
            else:
                sluice.application.begin_drain()
                check_refused(await first.response(), 503, "draining")
            assert sluice.queue_depth == 0
            engine.handler.release()
            assert (await second.response()).status == 200

    run(scenario())


def test_a_retry_that_moves_redeems_one_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[AdmissionRequest] = []

    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine)
        async with two_engines(hosts, engine) as sluice:
            controller = sluice.application.controller
            usual = controller.admit
            monkeypatch.setattr(
                controller, "admit", lambda request: requests.append(request) or usual(request)
            )
            hosts.gone = {"one.test", "two.test"}
            await sluice.ask(headers=[(b"x-stainless-retry-count", b"1")])

    run(scenario())
    first, second = requests
    assert (first.attempt, second.readmitted) == (1, True)
    assert first._replace(readmitted=True) == second


@pytest.mark.parametrize(("left", "status"), [("http://two.test", 200), (None, 503)])
def test_an_engine_that_is_removed_while_it_is_connected_to_is_no_crash(
    left: str | None, status: int
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine, gone_after_s=1.0)
        async with gateway(engine, upstream=hosts, upstream_urls="http://one.test") as sluice:
            hosts.gone = {"one.test"}
            exchange = sluice.start()
            await settle()
            sluice.application.fleet.set([UpstreamAddress.parse(left)] if left else [])
            answered = await exchange.response()
            assert answered.status == status
            if left is None:
                said = check_refused(answered, 503, "upstream_unavailable")
                assert "no engine is known" in said["message"]

    run(scenario())


def test_requests_go_to_the_engine_of_their_model() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine)
        async with two_engines(hosts, engine) as sluice:
            for number, name in enumerate(("http://one.test", "http://two.test")):
                sluice.application.controller.serves(name, frozenset({f"model-{number}"}))
            for _ in range(5):
                await sluice.ask({"model": "model-1"})
            assert set(hosts.tried) == {"two.test"}

    run(scenario())


def two_models(sluice: Sluice) -> None:
    """As if the engines had told that each serves a model of its own."""
    served = [(ServedModel("m1", None, {"id": "m1"}),), (ServedModel("m2", None, {"id": "m2"}),)]
    one, two = sluice.application.fleet.engines.values()
    engines: dict[str | None, Engine] = {None: one, "m1": one, "m2": two}
    routes = OpenRoutes(lambda: served, engines.get)
    sluice.client = AsgiClient(replace(sluice.application.public, open_routes=routes))


def test_the_models_of_all_engines_are_on_one_page() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, upstream_urls=TWO, api_keys=KEY) as sluice:
            two_models(sluice)
            check_refused(await sluice.get(b"/v1/models"), 401, "invalid_api_key")
            page = await sluice.get(b"/v1/models?x=1", [BEARER, (b"x-request-id", b"mine")])
            assert json.loads(page.body)["data"] == [{"id": "m1"}, {"id": "m2"}]
            assert (page.status, page.header("x-request-id")) == (200, "mine")
            assert page.header("content-type") == "application/json"
            assert page.header("content-length") == str(len(page.body))
            assert page.completed
            assert engine.seen == []
            assert sluice.metric("sluice_requests_total", route="models", outcome="ok") == 1

    run(scenario())


def test_what_takes_no_seat_goes_to_the_engine_of_its_model() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        hosts = Hosts(engine)
        async with two_engines(hosts, engine) as sluice:
            two_models(sluice)
            for model in ("m2", "m1"):
                await sluice.ask({"model": model, "prompt": "x"}, target=b"/tokenize")
                await sluice.get(b"/v1/models/" + model.encode())
            await sluice.get(b"/version")
            assert hosts.tried == [f"{name}.test" for name in ("two", "two", "one", "one", "one")]

    run(scenario())


# What is no HTTP request -----------------------------------------------------------------------


def test_a_websocket_is_refused() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            sent = SentMessages()
            scope = {"type": "websocket", "raw_path": b"/v1/realtime", "headers": []}
            await sluice.application.public(scope, ClientMessages().receive, sent.send)
            assert [message["type"] for message in sent] == ["websocket.close"]

    run(scenario())


def test_a_lifespan_is_nothing_to_the_gateway() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            sent = SentMessages()
            await sluice.application.public(
                {"type": "lifespan"}, ClientMessages().receive, sent.send
            )
            assert list(sent) == []

    run(scenario())


def test_a_client_that_left_before_its_body_was_there_is_abandoned() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            exchange = sluice.start(NEVER_ENDS)
            await asyncio.sleep(1)
            exchange.disconnect()
            with pytest.raises(NoResponseError):
                await exchange.head()
            assert sluice.outcomes() == {"abandoned": 1}
            assert engine.seen == []

    run(scenario())


def test_an_upload_that_takes_too_long_is_refused_with_what_came() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), body_timeout=30) as sluice:
            exchange = sluice.start(NEVER_ENDS)
            head = await exchange.head()
            assert (head.status, now()) == (408, 30)
            assert "1 bytes came" in error_of(await exchange.read())["message"]
            await exchange.ended()
            assert now() == 32  # it was read on for a while
            assert exchange.connection.aborted

    run(scenario())


def test_sse_is_the_engines_own_until_it_breaks() -> None:
    async def scenario() -> None:
        event = b": comment\r\ndata: \xff\x00\r\n\r\n"
        answer = await ask_one(responds(200, event, [SSE]))
        assert answer.body == event
        assert answer.completed

    run(scenario())


@pytest.mark.parametrize("headers", [(), ((b"x-sluice-priority", b"urgent"),)])
def test_a_flood_of_refusals_leaves_nothing_to_the_garbage_collector(headers: Headers) -> None:
    """A request that its own exception keeps alive is work for the collector, and holds memory."""

    async def scenario() -> None:
        engine = ScriptedApp(Hold())
        async with gateway(engine, max_in_flight=1, max_queue_depth=0) as sluice:
            held = await sluice.hold_seats(1)
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                await sluice.ask(headers=headers)
                gc.collect()
                assert not [kept for kept in gc.garbage if isinstance(kept, (BaseException, Visit))]
            finally:
                gc.set_debug(0)
                gc.enable()
                gc.garbage.clear()
            await leave(*held)

    run(scenario())
