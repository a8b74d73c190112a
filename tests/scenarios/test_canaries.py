"""Every error that the gateway has is provoked with a canary in each place where a secret may be,
at the most talkative settings; then no canary is anywhere but at the engine.

What sockets, libraries and processes could say is for tests/e2e/test_canaries.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from proxy.admission.outcome import Reason
from proxy.openai_api.errors import ErrorCode
from proxy.telemetry.access_log import AccessLog
from proxy.telemetry.last_resort import log_loop_fault
from proxy.telemetry.line_writer import LineWriter
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.logging_setup import configure_logging
from proxy.telemetry.otel_spans import SpanWriter
from proxy.telemetry.trace_file import TraceFile
from proxy.upstream import errors
from tests.support import canaries
from tests.support.asgi_transport import AsgiClient
from tests.support.canaries import BODY, leaks, raw_headers
from tests.support.gateway_in_memory import ENGINE_URL, Sluice, gateway, leave
from tests.support.logging_as_it_was import logging_as_it_was
from tests.support.scripted_app import Hold, ScriptedApp, after, silent
from tests.support.virtual_time import run, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.asgi_transport import AsgiExchange, Response

    Provocation = Callable[["Case"], Awaitable[Response]]

CHAT = b"/v1/chat/completions?" + canaries.QUERY.encode()
# At a real connection, which here is none: tests/e2e/test_canaries.py.
ELSEWHERE = {ErrorCode.TOO_MANY_CONNECTIONS}
CODES = {*ErrorCode, *Reason}


@dataclass
class Case:
    """A gateway of one seat and four places, in front of an engine that holds what it is sent."""

    sluice: Sluice
    engine: ScriptedApp
    held: list[AsgiExchange] = field(default_factory=list)

    async def ask(self, body: Any = BODY, target: bytes = CHAT, **changed: str) -> Response:  # noqa: ANN401 - as the client takes it
        headers = raw_headers(**changed)
        return await self.sluice.ask(body, target=target, headers=headers)

    async def hold(self, count: int, **changed: str) -> None:
        """So many requests that do not end."""
        headers = raw_headers(**changed)
        self.held += [self.sluice.start(BODY, target=CHAT, headers=headers) for _ in range(count)]
        await settle()


PROVOKED: dict[str, Provocation] = {}


def provokes(code: ErrorCode | Reason) -> Callable[[Provocation], Provocation]:
    def note(provocation: Provocation) -> Provocation:
        PROVOKED[code] = provocation
        return provocation

    return note


@provokes(ErrorCode.INVALID_API_KEY)
async def a_stranger(case: Case) -> Response:
    return await case.ask(authorization=f"Bearer {canaries.WRONG_KEY}")


@provokes(ErrorCode.UNKNOWN_PATH)
async def a_control_route(case: Case) -> Response:
    return await case.ask(target=b"/sleep/" + canaries.PROMPT.encode())


@provokes(ErrorCode.METHOD_NOT_ALLOWED)
async def another_method(case: Case) -> Response:
    return await case.sluice.ask(BODY, target=CHAT, method="PUT", headers=raw_headers())


@provokes(ErrorCode.BAD_REQUEST)
async def no_request(case: Case) -> Response:
    answer = await case.ask(x_sluice_queue_timeout=canaries.PROMPT)
    assert answer.status == 400
    for body in (f'{{"prompt": "{canaries.PROMPT}', f'["{canaries.PROMPT}"]', canaries.PROMPT):
        answer = await case.ask(body.encode(), content_type="application/json")
        assert answer.status == 400
    return answer


@provokes(ErrorCode.BODY_TOO_LARGE)
async def a_large_body(case: Case) -> Response:
    return await case.ask(canaries.PROMPT.encode() * 5_000)


@provokes(ErrorCode.BODY_TIMEOUT)
async def a_slow_body(case: Case) -> Response:
    return await case.ask([canaries.PROMPT.encode(), 100.0, b"x"])


@provokes(ErrorCode.TOO_MANY_SEQUENCES)
async def many_choices(case: Case) -> Response:
    return await case.ask({**BODY, "n": 9})


@provokes(ErrorCode.CONTEXT_LENGTH_EXCEEDED)
async def many_token_ids(case: Case) -> Response:
    meter = case.sluice.application.public.token_meter
    assert meter is not None
    with patch.object(meter, "_model_len", lambda: 10):
        return await case.ask({**BODY, "prompt": [1] * 50}, b"/v1/completions")


def engine_fails(kind: type[errors.UpstreamError]) -> Provocation:
    async def failing(case: Case) -> Response:
        case.sluice.upstream.fails_with = kind(errors.said_of("engine.test:80", "no"))
        return await case.ask()

    return failing


for kind in errors.UpstreamError.__subclasses__():
    PROVOKED[kind.code] = engine_fails(kind)


@provokes(ErrorCode.INTERNAL_ERROR)
async def faults_of_ours(case: Case) -> Response:
    """Wherever a request passes, and with all that it has in the words of the exception."""
    for place in (
        "proxy.edge.doorman.Doorman._route",
        "proxy.edge.gateway.measure",
        "proxy.edge.gateway.request_headers",
        "proxy.edge.gateway.response_headers",
        "proxy.edge.relay.Relay.pass_on",
    ):
        case.engine.handler = Hold()
        case.engine.handler.release()
        with patch(place, side_effect=fail_with_all_of_it):
            answer = await case.ask()
        assert answer.status == 500, place
    return answer


def fail_with_all_of_it(*_: object, **__: object) -> None:
    try:
        {}[json.dumps(BODY)]
    except KeyError as error:
        quoting = ValueError(f"{raw_headers()} {CHAT!r} {canaries.ENGINE_KEY}")
        quoting.add_note(canaries.PROMPT)
        raise quoting from error


@provokes(Reason.QUEUE_FULL)
async def a_crowd(case: Case) -> Response:
    await case.hold(1 + 4)
    return await case.ask()


@provokes(Reason.QUEUE_TIMEOUT)
async def no_seat_in_time(case: Case) -> Response:
    await case.hold(1, authorization=f"Bearer {canaries.CLIENT_KEY}")
    return await case.ask()


@provokes(Reason.DEADLINE_UNREACHABLE)
async def no_seat_in_sight(case: Case) -> Response:
    case.engine.handler = after(10.0)
    for _ in range(3):
        await case.ask()
    case.engine.handler = silent
    await case.hold(1 + 3)
    return await case.ask(x_sluice_queue_timeout="0.5")


@provokes(Reason.RETRY_BUDGET_EXHAUSTED)
async def a_retry_that_nobody_invited(case: Case) -> Response:
    await case.hold(1 + 3)
    return await case.ask(x_stainless_retry_count="1")


@provokes(Reason.TENANT_LIMIT)
async def more_than_ones_share(case: Case) -> Response:
    await case.hold(1 + 4)
    await case.hold(1, authorization=f"Bearer {canaries.CLIENT_KEY}")
    return await case.held[4].response()


@provokes(Reason.DRAINING)
async def the_end(case: Case) -> Response:
    await case.hold(1)
    case.sluice.application.begin_drain()
    return await case.ask()


def without_engine(reason: Reason) -> Provocation:
    async def asking(case: Case) -> Response:
        case.sluice.application.controller.suspend(ENGINE_URL, reason)
        return await case.ask()

    return asking


for away in (Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED):
    PROVOKED[away] = without_engine(away)


def test_every_error_is_provoked() -> None:
    assert set(PROVOKED) == CODES - ELSEWHERE


SETTINGS: dict[str, object] = {
    "max_in_flight": 1,
    "max_queue_depth": 4,
    "queue_timeout": 5,
    "max_seats_per_request": 8,
    "max_kv_tokens": 1_000_000,
    "max_body_bytes": 50_000,
    "retry_budget": 0,
    "api_keys": canaries.KEYS,
    "upstream_api_key": canaries.ENGINE_KEY,
    "admin_token": canaries.ADMIN_TOKEN,
    "otlp_endpoint": "http://collector.test",
    "log_level": "debug",
}


async def pages(sluice: Sluice) -> list[str]:
    """All that can be read of a gateway, and what it says to a stranger who would change it."""
    wrong = [(b"authorization", b"Bearer " + canaries.WRONG_KEY.encode())]
    right = [(b"authorization", b"Bearer " + canaries.ADMIN_TOKEN.encode())]
    openmetrics = [(b"accept", b"application/openmetrics-text")]
    admin, public = sluice.application.admin, sluice.application.public
    told = [
        await AsgiClient(app).request(method, target.encode(), headers, body)
        for app, method, target, headers, body in (
            (public, "GET", "/readyz", (), b""),
            (admin, "GET", "/readyz", (), b""),
            (admin, "GET", "/metrics", (), b""),
            (admin, "GET", "/metrics", openmetrics, b""),
            (admin, "GET", "/status", (), b""),
            (admin, "GET", "/status.json", (), b""),
            (admin, "GET", "/admin/settings", right, b""),
            (admin, "GET", "/admin/drain", right, b""),
            (admin, "PATCH", "/admin/settings", wrong, canaries.PROMPT.encode()),
            (admin, "PATCH", "/admin/settings", right, canaries.PROMPT.encode()),
            (admin, "PUT", "/admin/drain", right, f'{{"{canaries.PROMPT}": 1}}'.encode()),
            (admin, "GET", f"/{canaries.PROMPT}?{canaries.QUERY}", wrong, b""),
        )
    ]
    return [as_text(answer) for answer in told]


def as_text(answer: Response) -> str:
    return f"{answer.head} {answer.body!r}"


# A console line is made of the same record; tracebacks look different there.
JSON_OF_ALL = [(code, LogFormat.JSON) for code in sorted(PROVOKED)]
CONSOLE_OF_SOME = [(code, LogFormat.CONSOLE) for code in ("internal_error", "upstream_connect")]


@pytest.mark.parametrize(("code", "form"), [*JSON_OF_ALL, *CONSOLE_OF_SOME])
def test_no_canary_is_anywhere(code: str, form: LogFormat, tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()

    async def scenario() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(log_loop_fault)
        spans = stack.enter_context(closing(SpanWriter(SimpleSpanProcessor(exporter))))
        sinks = (AccessLog(log, form, 1.0), TraceFile(trace, 0.0), spans)
        engine = ScriptedApp(silent)
        async with gateway(engine, sinks=sinks, **SETTINGS) as sluice:
            case = Case(sluice, engine)
            answer = await PROVOKED[code](case)
            assert answer.header("x-sluice-reason") == code
            told = [as_text(answer), *await pages(sluice)]
            await leave(*(one for one in case.held if not one.completed))
            sluice.upstream.fails_with = None
            return told

    with contextlib.ExitStack() as stack:
        log = stack.enter_context(closing(LineWriter.to_file(tmp_path / "log")))
        trace = stack.enter_context(closing(LineWriter.to_file(tmp_path / "trace")))
        stack.enter_context(logging_as_it_was())
        configure_logging("debug", form, log)
        told = run(scenario())
    written = [(tmp_path / name).read_text() for name in ("log", "trace")]
    assert all(written)
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert spans
    assert leaks([*told, *written, *spans]) == []


def test_a_canary_that_is_somewhere_is_found() -> None:
    """The search, and that what is searched for gets into the gateway in the first place."""
    assert leaks(["{'a': 'b'}", f"b'..{canaries.PROMPT.upper()}..'", b"\xff" + b"KANARY"]) != []
    assert leaks(["canary", b"kana ry"]) == []

    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine, **SETTINGS) as sluice:
            assert (await Case(sluice, engine).ask()).status == 200
        (seen,) = engine.seen
        assert canaries.PROMPT.encode() in seen.body
        values = b" ".join(value for _, value in seen.headers)
        assert all(
            secret.encode() in values
            for name, secret in canaries.HEADERS.items()
            if name not in ("authorization", "tracestate", "x-forwarded-for")
        )
        assert canaries.ENGINE_KEY.encode() in values
        assert canaries.TENANT_KEY.encode() not in values

    run(scenario())
