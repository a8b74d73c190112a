"""Header fields on both sides of the gateway: which pass, whose keys. Field cases R45 to R51."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream, head
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import RawAnswer
    from tests.support.scripted_upstream import Exchange, SeenRequest


@pytest.fixture(scope="module", params=["pool", "httpx"], name="stand")
def _stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(
        max_in_flight=2, max_queue_depth=4, queue_timeout=1, upstream_client=request.param
    ) as stand:
        yield stand


def values(answer: RawAnswer, name: str) -> list[str]:
    return [value for key, value in answer.headers if key.lower() == name]


# Credentials.

PASSED_ROUTES = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/pooling"),
    ("POST", "/rerank"),
    ("POST", "/tokenize"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/chat/completions/render"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/org%2Fname"),
    ("GET", "/version"),
    ("GET", "/v1/responses/resp_1?stream=true"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
]
CLIENT_FIELDS = {
    "Authorization": "Bearer sk-of-the-engine",
    "x-api-key": "sk-of-the-engine",
    "OpenAI-Organization": "org-1",
    "OpenAI-Project": "proj-1",
    "X-Custom": "kept,  as it is ",
    "X-Stainless-Retry-Count": "1",
    "X-Session-ID": "s",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "User-Agent": "an app",
    "Cookie": "a=1; b=2",
}


@pytest.mark.parametrize(("method", "target"), PASSED_ROUTES)
@on_the_stand
async def test_the_clients_fields_reach_the_engine_on_every_route(
    stand: Stand, method: str, target: str
) -> None:
    """R45"""
    body = b"{}" if method == "POST" else b""
    request = stand.request(target, body, method, headers=CLIENT_FIELDS)
    assert (await ask_once(stand.sluice.port, request)).status == 200
    seen = stand.upstream.seen[0]
    assert (seen.method, seen.target) == (method, target.encode())
    for name, value in CLIENT_FIELDS.items():
        assert seen.values(name.lower().encode()) == [value.strip().encode()], name


@on_the_stand
async def test_the_engine_is_addressed_by_its_own_name(stand: Stand) -> None:
    """R45: the client's Host is the gateway's."""
    await ask_once(stand.sluice.port, stand.request(headers={"Host": "gateway.example"}))
    authority = f"127.0.0.1:{stand.upstream.port}".encode()
    assert stand.upstream.seen[0].values(b"host") == [authority]


@pytest.mark.parametrize("given", ["mine-1", "", "x" * 129, "caf\xe9", None])
@on_the_stand
async def test_one_request_id_goes_all_the_way(stand: Stand, given: str | None) -> None:
    """R45: the client's if it is sane, and never the engine's."""

    async def answer_with_another(exchange: Exchange) -> None:
        exchange.respond(b"{}", headers=[("x-request-id", "the-engines")])

    stand.upstream.handler = answer_with_another
    headers = {} if given is None else {"X-Request-Id": given}
    answer = await ask_once(stand.sluice.port, stand.request(headers=headers))
    (request_id,) = values(answer, "x-request-id")
    assert (request_id == given) is (given == "mine-1")
    assert stand.upstream.seen[0].values(b"x-request-id") == [request_id.encode()]
    await eventually(lambda: any(request_id in line for line in stand.sluice.log))


MULTIPART = (
    b'--x"y\r\nContent-Disposition: form-data; name="file"; filename="\xe9\x9f\xb3.mp3"\r\n\r\n'
    b'\0\1\2\r\n--x"y\r\nContent-Disposition: form-data; name="model"\r\n\r\nw\r\n--x"y--\r\n'
)


@on_the_stand
async def test_a_form_reaches_the_engine_byte_for_byte(stand: Stand) -> None:
    """R45: with its boundary, and its Authorization."""
    content_type = 'multipart/form-data; boundary="x\\"y"'
    headers = {**CLIENT_FIELDS, "Content-Type": content_type}
    request = stand.request("/v1/audio/transcriptions", MULTIPART, headers=headers)
    assert (await ask_once(stand.sluice.port, request)).status == 200
    seen = stand.upstream.seen[0]
    assert seen.body == MULTIPART
    assert seen.values(b"content-type") == [content_type.encode()]
    assert seen.values(b"authorization") == [b"Bearer sk-of-the-engine"]


CLIENT_KEY, ENGINE_KEY, THE_CLIENTS_OWN = "key-of-the-gateway", "key-of-the-engine", "sk-own"


def credentials(seen: SeenRequest) -> tuple[list[bytes], list[bytes]]:
    return seen.values(b"authorization"), seen.values(b"x-api-key")


@pytest.mark.parametrize("engine_key", [ENGINE_KEY, "", None])
@pytest.mark.parametrize("gateway_has_keys", [True, False])
def test_whose_key_reaches_the_engine_is_as_the_table_says(
    gateway_has_keys: bool, engine_key: str | None
) -> None:
    """R46: the table in proxy/upstream/header_rules.py; an empty key is none."""
    settings = {"api_keys": f"app:{CLIENT_KEY}"} if gateway_has_keys else {}
    if engine_key is not None:
        settings["upstream_api_key"] = engine_key
    sent = CLIENT_KEY if gateway_has_keys else THE_CLIENTS_OWN
    passed = [] if gateway_has_keys else [sent.encode()]
    authorization = [b"Bearer " + key for key in passed]
    if engine_key:
        authorization = [f"Bearer {engine_key}".encode()]

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=1, **settings) as sluice,
        ):
            for target, body, method in [
                ("/v1/completions", b"{}", "POST"),
                ("/v1/models", b"", "GET"),
            ]:
                for field, value in [("Authorization", f"Bearer {sent}"), ("x-api-key", sent)]:
                    headers = {field: value, "x-client-id": "the-client"}
                    request = request_bytes(target, body, method, headers)
                    assert (await ask_once(sluice.port, request)).status == 200
            by_field = [credentials(seen) for seen in upstream.seen_by("the-client")]
            with_bearer = (authorization, [])
            with_api_key = (authorization if engine_key else [], passed)
            assert by_field == [with_bearer, with_api_key] * 2
            if gateway_has_keys:
                everything = b"".join(seen.raw for seen in upstream.seen + upstream.probed)
                assert CLIENT_KEY.encode() not in everything

    asyncio.run(scenario())


def test_the_gateways_own_health_checks_carry_the_engines_key() -> None:
    """R47: on an engine that guards every path, health included."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(bearer=ENGINE_KEY) as upstream,
            gateway(upstream.url, max_in_flight=1, upstream_api_key=ENGINE_KEY) as sluice,
        ):
            assert (await ask_once(sluice.port, request_bytes())).status == 200
            assert upstream.probed
            bearer = f"Bearer {ENGINE_KEY}".encode()
            assert {seen.header(b"authorization") for seen in upstream.probed} == {bearer}

    asyncio.run(scenario())


def test_a_wrong_engine_key_is_called_that() -> None:
    """R47: not ready, and the reason is the 401, not the connection."""

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(ScriptedUpstream(bearer=ENGINE_KEY))
            sluice = await stack.enter_async_context(
                gateway(
                    upstream.url, max_in_flight=1, upstream_api_key="wrong", wait_until_ready=False
                )
            )
            await eventually(lambda: len(upstream.probed) > 1)
            ready = await ask_once(sluice.port, request_bytes("/readyz", b"", "GET"))
            assert ready.status == 503
            assert b"401" in ready.body
            assert b"SLUICE_UPSTREAM_API_KEY" in ready.body
            assert b"wrong" not in ready.body

    asyncio.run(scenario())


# Addresses, and fields of one hop.


@on_the_stand
async def test_a_forwarded_address_changes_nothing_here_and_passes(stand: Stand) -> None:
    """R50: nothing is decided or logged by what a client writes there."""
    for number in range(8):
        claimed = f"10.9.8.{number}"
        headers = {"X-Forwarded-For": f"{claimed}, 1.1.1.1", "Forwarded": f"for={claimed}"}
        answer = await ask_once(stand.sluice.port, stand.request(headers=headers))
        assert answer.status == 200
        seen = stand.upstream.seen[-1]
        assert seen.values(b"x-forwarded-for") == [f"{claimed}, 1.1.1.1".encode()]
        assert seen.values(b"forwarded") == [f"for={claimed}".encode()]
    await eventually(lambda: sum('"access"' in line for line in stand.sluice.log) >= 8)
    assert not [line for line in stand.sluice.log if "10.9.8" in line]


HOP_BY_HOP = [
    ("Connection", "keep-alive, X-Hop"),
    ("X-Hop", "1"),
    ("Keep-Alive", "timeout=5"),
    ("TE", "trailers"),
    ("Trailer", "X-Sum"),
    ("Upgrade", "foo/2"),
    ("Proxy-Authorization", "Basic Zm9v"),
    ("Proxy-Authenticate", "Basic"),
    ("Proxy-Connection", "keep-alive"),
]
HOP_NAMES = {name.lower() for name, _ in HOP_BY_HOP}


@on_the_stand
async def test_fields_of_one_connection_stay_on_it(stand: Stand) -> None:
    """R51, in both directions, those that Connection names included."""

    async def answer_with_them(exchange: Exchange) -> None:
        exchange.respond(b"{}", headers=[*HOP_BY_HOP, ("X-Kept", "1")])

    stand.upstream.handler = answer_with_them
    fields = dict(HOP_BY_HOP) | {"X-Kept": "1"}
    answer = await ask_once(stand.sluice.port, stand.request(headers=fields))
    seen = stand.upstream.seen[0]
    assert not {name.decode().lower() for name, _ in seen.headers} & HOP_NAMES
    assert seen.values(b"x-kept") == [b"1"]
    assert not {name.lower() for name, _ in answer.headers} & HOP_NAMES
    assert values(answer, "x-kept") == ["1"]


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@on_the_stand
async def test_an_engine_that_closes_its_connection_does_not_close_the_clients(
    stand: Stand, version: str
) -> None:
    """R51"""

    async def last_words(exchange: Exchange) -> None:
        fields = [("connection", "close"), ("content-length", "2")]
        exchange.send(head(200, fields).replace(b"HTTP/1.1", version.encode(), 1) + b"{}")
        exchange.close()

    stand.upstream.handler = last_words
    async with await stand.client() as client:
        for _ in range(3):
            answer = await client.ask(stand.request())
            assert (answer.status, answer.body) == (200, b"{}")
            assert values(answer, "connection") == []
    assert len({seen.connection for seen in stand.upstream.seen}) == 3


@on_the_stand
async def test_a_client_that_wants_its_connection_closed_keeps_the_engines_open(
    stand: Stand,
) -> None:
    """R51"""
    for _ in range(3):
        async with await stand.client() as client:
            answer = await client.ask(stand.request(headers={"Connection": "close"}))
            assert answer.complete
            assert values(answer, "connection") == ["close"]
            assert await client.reader.read() == b""
        await stand.sluice.until_idle()
    assert len({seen.connection for seen in stand.upstream.seen}) == 1


@on_the_stand
async def test_repeated_fields_stay_repeated_and_in_order(stand: Stand) -> None:
    """R42: joined with a comma, cookies and dates are lost."""
    cookies = [("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT"), ("Set-Cookie", "b=2")]

    async def answer_with_cookies(exchange: Exchange) -> None:
        exchange.respond(b"{}", headers=[*cookies, ("Vary", "a"), ("Vary", "b")])

    stand.upstream.handler = answer_with_cookies
    async with await RawClient.connect(stand.sluice.port) as client:
        request = stand.request().replace(b"\r\n\r\n", b"\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n", 1)
        answer = await client.ask(request)
    assert values(answer, "set-cookie") == [value for _, value in cookies]
    assert values(answer, "vary") == ["a", "b"]
    assert stand.upstream.seen[0].values(b"x-twice") == [b"1", b"2"]
