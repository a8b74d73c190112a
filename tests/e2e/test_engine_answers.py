"""The engine's own statuses and fields, which pass as they are. Field cases R25, R27 and R28."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.raw_client import ask_once
from tests.support.scripted_upstream import json_answer
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scripted_upstream import Exchange

SSE = "text/event-stream; charset=utf-8"


@pytest.fixture(scope="module", params=["pool", "httpx"], name="stand")
def _stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(
        max_in_flight=2, max_queue_depth=4, queue_timeout=1, upstream_client=request.param
    ) as stand:
        yield stand


ANSWERS = [
    (400, '{"error":{"message":"maximum context length is 2048","code":400}}', {}),
    (401, '{"error":"Unauthorized"}', {"www-authenticate": "Bearer"}),
    (403, "{}", {}),
    (404, '{"error":{"message":"no such model","type":"NotFoundError","code":404}}', {}),
    (413, "", {}),
    (422, '{"detail": [{"loc": ["body"]}]}', {}),
    (429, '{"error":{"message":"slow down"}}', {"retry-after": "17"}),
    (500, "Internal Server Error", {}),
    (503, '{"error":{"message":"engine full"}}', {"retry-after": "3", "retry-after-ms": "2500"}),
    (529, '{"error":{}}', {}),
]
OUTCOMES = {429: "upstream_overloaded", 503: "upstream_overloaded"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "body", "fields"), ANSWERS, ids=[str(a[0]) for a in ANSWERS])
@on_the_stand
async def test_the_engines_own_errors_pass_unchanged_and_are_asked_for_once(
    stand: Stand, status: int, body: str, fields: dict[str, str], stream: bool
) -> None:
    """R25"""

    async def answer_so(exchange: Exchange) -> None:
        headers = [*fields.items(), ("X-Custom", "Kept")]
        exchange.respond(body.encode(), status, headers, content_type="application/problem+json")

    stand.upstream.handler = answer_so
    answer = await ask_once(stand.sluice.port, stand.request(body={"stream": stream}))
    assert (answer.status, answer.body) == (status, body.encode())
    assert answer.header("content-type") == "application/problem+json"
    assert answer.header("x-custom") == "Kept"
    assert answer.header("x-sluice-reason") is None
    assert {name: answer.header(name) for name in fields} == fields
    assert len(stand.upstream.seen) == 1
    by_class = "client_error" if status < 500 else "upstream_error"
    assert await stand.outcomes() == {OUTCOMES.get(status, by_class): 1}


@on_the_stand
async def test_only_an_overload_without_a_retry_after_gets_one(stand: Stand) -> None:
    """R25"""
    for status, given in [(503, True), (429, False), (500, False), (200, False)]:
        stand.upstream.handler = json_answer(status=status)
        answer = await ask_once(stand.sluice.port, stand.request())
        assert (answer.header("retry-after") is not None) is given


CONTENT_TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    'Text/Event-Stream;charset="UTF-8"',
    "text/event-stream ;  Charset=utf8",
    "text/plain; charset=shift_jis",
    "audio/mpeg",
]


@on_the_stand
async def test_the_content_type_passes_byte_for_byte(stand: Stand) -> None:
    """R27: none where there was none; nor is the body read in any charset."""
    body = b'{"a": "\xff\xfe \x83\x65"}'
    for content_type in [*CONTENT_TYPES, None]:

        async def answer_so(exchange: Exchange, content_type: str | None = content_type) -> None:
            exchange.respond(body, content_type=content_type)

        stand.upstream.handler = answer_so
        answer = await ask_once(stand.sluice.port, stand.request())
        assert answer.header("content-type") == content_type
        assert answer.body == body


@pytest.mark.parametrize("said", [[], [("X-Accel-Buffering", "no"), ("Cache-Control", "no-store")]])
@on_the_stand
async def test_fields_about_buffering_are_the_engines_alone(
    stand: Stand, said: list[tuple[str, str]]
) -> None:
    """R28: passed as they are, and never added: a stream looks as it does without a gateway."""
    for content_type in (SSE, "application/json"):

        async def answer_so(exchange: Exchange, content_type: str = content_type) -> None:
            exchange.start_chunked(headers=said, content_type=content_type)
            exchange.end_chunked()

        stand.upstream.handler = answer_so
        answer = await ask_once(stand.sluice.port, stand.request())
        names = ("x-accel-buffering", "cache-control", "pragma", "expires")
        found = [(name, value) for name, value in answer.headers if name.lower() in names]
        assert [(name.lower(), value) for name, value in found] == [
            (name.lower(), value) for name, value in said
        ]
