"""What must not be reachable, not be fooled, not be logged.

Field cases R120 to R125, on raw sockets: what a client library would never send.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING

import pytest

from tests.support.burst import Burst
from tests.support.gateway_process import gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
    raw_answer,
)
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import Headers

INVALID = "invalid_request_error"
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=2, max_queue_depth=4, queue_timeout=5) as stand:
        yield stand


# What is not served.

CONTROL_PATHS = (
    "/sleep",
    "/wake_up",
    "/is_sleeping",
    "/pause",
    "/resume",
    "/abort_requests",
    "/collective_rpc",
    "/reset_prefix_cache",
    "/reset_mm_cache",
    "/reset_encoder_cache",
    "/scale_elastic_ep",
    "/is_scaling_elastic_ep",
    "/update_weights",
    "/update_weights_from_disk",
    "/init_weight_transfer_engine",
    "/server_info",
    "/start_profile",
    "/stop_profile",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/invocations",
    "/ping",
    "/load",
    "/health",
    "/metrics",
    "/kv_event_sources",
    "/tokenizer_info",
    "/v1/realtime",
    "/sim/fault",
    "/sim/gpu",
    "/docs",
    "/docs/oauth2-redirect",
    "/redoc",
    "/openapi.json",
    "/status",
    "/status.json",
    "/debug/stacks",
    "/",
    "/favicon.ico",
    "/.env",
)


def spellings(path: str) -> list[str]:
    """The ways in which a path slips by a list of forbidden ones."""
    first, rest = path[1:2], path[2:]
    return [
        path,
        path.upper(),
        f"{path}/",
        f"/{path}",
        f"/%{ord(first or '/'):02x}{rest}",
        f"{path};x",
        f"{path}?x",
        f"{path}%20",
        f"/v1{path}",
        f"/v1/..{path}",
        f"/v1/models/..{path}",
        f"/v1/models/../..{path}",
    ]


@pytest.mark.timeout(60)
@on_the_stand
async def test_nothing_but_the_listed_routes_reaches_the_engine(stand: Stand) -> None:
    """R120, R124: an allow-list needs no list of what is dangerous; this one tries to get by it."""
    targets = {target for path in CONTROL_PATHS for target in spellings(path)}
    targets -= {"/v1/completions"}
    async with await stand.client() as client:
        for target, method in itertools.product(sorted(targets), ("GET", "POST", "PUT")):
            answer = await client.ask(request_bytes(target, b"", method))
            check_own_answer(answer, 404, INVALID, "unknown_path")
    assert stand.upstream.seen == []


async def other_server(exchange: Exchange) -> None:
    exchange.respond(b"you should not be here")


PATH_TRICKS = {
    "parent": b"/v1/../sleep",
    "encoded-parent": b"/v1/%2e%2e/sleep",
    "half-encoded-parent": b"/v1/..%2fsleep",
    "twice-encoded-parent": b"/v1/%252e%252e/sleep",
    "parent-behind-an-id": b"/v1/models/%2e%2e/%2e%2e/sleep",
    "parent-in-an-id": b"/v1/responses/..%2f..%2fsleep/cancel",
    "backslash-parent": b"/v1/models/..\\..\\sleep",
    "other-host": b"//elsewhere.test/x",
    "other-host-backslash": b"/\\elsewhere.test",
    "user-info": b"/@elsewhere.test/",
    "fragment": b"/v1/models#@elsewhere.test",
    "null": b"/v1/models/a%00b",
    "line-end": b"/v1/models/a%0d%0aX-Injected:%20y",
    "line-end-in-cancel": b"/v1/responses/a%0d%0aX-Injected:y/cancel",
    "delete-character": b"/v1/models/a%7f",
    "blank": b"/v1/models/a%20b",
    "64-kB": b"/v1/models/" + b"a" * 64_000,
    "over-long-utf-8": b"/v1/%c0%ae%c0%ae/sleep",
}


@pytest.mark.parametrize("trick", PATH_TRICKS)
@on_the_stand
async def test_a_path_that_means_two_things_is_not_passed_on(stand: Stand, trick: str) -> None:
    """R121: neither the path nor what somebody behind us could make of it."""
    for method in (b"GET", b"POST"):
        async with await stand.client() as client:
            client.send(b"%b %b HTTP/1.1\r\nHost: gateway\r\nContent-Length: 0\r\n\r\n" % (
                method, PATH_TRICKS[trick],
            ))  # fmt: skip
            answer = await client.answer()
            assert answer.status in (400, 404, 431)
            check_own_answer(answer, answer.status, INVALID, str(answer.error["code"]))
    assert stand.upstream.seen == []


@on_the_stand
async def test_an_absolute_target_leads_to_no_other_server(stand: Stand) -> None:
    """R121: no proxy for anybody: what host a request names decides nothing."""
    async with ScriptedUpstream(other_server) as elsewhere:
        other = f"127.0.0.1:{elsewhere.port}"
        for target, host in (
            (f"http://{other}/v1/models", "gateway"),
            (f"http://user:pass@{other}/v1/models", "gateway"),
            ("/v1/models", other),
            (f"http://{other}/sleep", other),
        ):
            request = request_bytes(target, b"", "GET", {"Host": host})
            answer = await ask_once(stand.sluice.port, request)
            assert answer.status == (404 if target.endswith("/sleep") else 200)
        for line in (f"CONNECT {other} HTTP/1.1", "OPTIONS * HTTP/1.1"):
            async with await stand.client() as client:
                answer = await client.ask(f"{line}\r\nHost: {other}\r\n\r\n".encode())
                assert answer.status in (400, 404)
        assert elsewhere.connections_accepted == 0
    assert {request.target for request in stand.upstream.seen} == {b"/v1/models"}
    authority = f"127.0.0.1:{stand.upstream.port}".encode()
    assert {request.header(b"host") for request in stand.upstream.seen} == {authority}


@on_the_stand
async def test_an_encoded_slash_in_an_id_still_works(stand: Stand) -> None:
    """R121: model names have slashes; the engine sees the path that was judged."""
    for target in ("/v1/models/org%2Fname", "/v1/models/org/name", "/v1/models/a.b-c_d:e@f"):
        assert (await ask_once(stand.sluice.port, request_bytes(target, b"", "GET"))).status == 200
        assert stand.upstream.seen[-1].target == target.encode()


@on_the_stand
async def test_a_client_cannot_add_a_header_line_for_the_engine(stand: Stand) -> None:
    """R121: whatever is in a value stays in it."""
    odd = {"x-request-id": "a b;c=d, e", "X-Tab": "a\tb", "X-High": "caf\xe9", "X-Empty": ""}
    assert (await ask_once(stand.sluice.port, request_bytes(headers=odd))).status == 200
    (seen,) = stand.upstream.seen
    for name, value in odd.items():
        assert seen.values(name.encode()) == [value.encode("latin-1")]
    assert len({name.lower() for name, _value in seen.headers}) == len(seen.headers)


@on_the_stand
async def test_an_insane_request_id_is_replaced(stand: Stand) -> None:
    """R121, R123: it would be written into logs, and sent on."""
    for bad in ("x" * 129, "caf\xe9", "a\tb", ""):
        answer = await ask_once(stand.sluice.port, request_bytes(headers={"x-request-id": bad}))
        (used,) = [value for name, value in answer.headers if name.lower() == "x-request-id"]
        assert used != bad
        assert used.isalnum()
        assert stand.upstream.seen[-1].header(b"x-request-id") == used.encode()


# Requests inside requests.


@on_the_stand
async def test_a_request_hidden_in_a_body_is_only_a_body(stand: Stand) -> None:
    """R121: smuggling needs two readers who disagree; the one who forwards re-frames."""
    hidden = b"GET /sleep HTTP/1.1\r\nHost: engine\r\n\r\n"
    for body, headers in (
        (hidden, {"Content-Type": "text/plain"}),
        (b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden), {
            "Content-Type": "text/plain", "Transfer-Encoding": "chunked",
        }),
    ):  # fmt: skip
        answer = await ask_once(
            stand.sluice.port, request_bytes("/tokenize", body, headers=headers)
        )
        assert answer.status == 200
    assert [request.target for request in stand.upstream.seen] == [b"/tokenize", b"/tokenize"]
    assert [request.body for request in stand.upstream.seen] == [hidden, hidden]
    assert stand.upstream.pipelined == 0


# Framework pages.


@on_the_stand
async def test_there_are_no_framework_pages_on_either_listener(stand: Stand) -> None:
    """R124: they would shadow the engine's, and describe what is nobody's business."""
    sluice = stand.sluice
    pages = ["/docs", "/redoc", "/docs/oauth2-redirect"]
    # The admin listener's /openapi.json is no framework's: tests/e2e/test_admin_api.py.
    everywhere = [(port, page) for port in (sluice.port, sluice.admin_port) for page in pages]
    for port, path in [*everywhere, (sluice.port, "/openapi.json")]:
        answer = await ask_once(port, request_bytes(path, b"", "GET"))
        check_own_answer(answer, 404, INVALID, "unknown_path")
    public = await ask_once(sluice.port, request_bytes("/metrics", b"", "GET"))
    check_own_answer(public, 404, INVALID, "unknown_path")
    for target in (CHAT, "/v1/models"):
        answer = await ask_once(sluice.admin_port, request_bytes(target))
        check_own_answer(answer, 404, INVALID, "unknown_path")
    assert stand.upstream.seen == []
    served = await ask_once(sluice.port, request_bytes("/v1/models", b"", "GET"))
    assert served.header("server") is None, "it says what it runs on"


# Where things are.


@on_the_stand
async def test_only_this_machine_reaches_the_admin_listener_unless_it_is_opened(
    stand: Stand,
) -> None:
    """Bound to 127.0.0.1 alone, where one on every address would answer at 127.0.0.2 too."""
    admin = stand.sluice.admin_port
    assert (await ask_once(admin, request_bytes("/healthz", b"", "GET"))).status == 200
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(admin, "127.0.0.2")


@pytest.mark.parametrize("client", ["pool", "httpx"])
def test_no_client_is_told_where_the_engines_are(client: str) -> None:
    """Not by /readyz on the public listener, nor by any answer when engines fail or are away."""
    faults = (close_on_receipt, raw_answer(b"what\r\n\r\n", "close"), Hold())

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url, max_in_flight=1, first_byte_timeout=0.2, upstream_client=client
            ) as sluice,
        ):
            readyz = request_bytes("/readyz", b"", "GET")
            told = [await ask_once(sluice.port, readyz)]
            for upstream.handler in faults:
                told.append(await ask_once(sluice.port, request_bytes()))
            upstream.stop_listening()
            upstream.reset_all()
            told.append(await ask_once(sluice.port, request_bytes()))
            await sluice.until_metric("sluice_upstream_up", 0)
            told += [await ask_once(sluice.port, one) for one in (request_bytes(), readyz)]
            statuses = [answer.status for answer in told]
            assert statuses == [200, 502, 502, 504, 502, 503, 503]
            assert "refused" in json.loads(told[-1].body)["reason"]
            where = (str(upstream.port).encode(), b"127.0.0.1", b"localhost")
            for answer in told:
                assert not any(word in answer.body for word in where)
            in_detail = await ask_once(sluice.admin_port, readyz)
            assert upstream.url.encode() in in_detail.body

    asyncio.run(scenario())


# Keys.

KEY = "k3y-of-the-app-0123456789"


@pytest.fixture(scope="module", name="guarded")
def _guarded() -> Iterator[Stand]:
    with standing(
        {"Authorization": f"Bearer {KEY}"},
        max_in_flight=2,
        max_queue_depth=4,
        queue_timeout=5,
        api_keys=f"app:{KEY},other:another-key",
        expose="GET /load",
    ) as stand:
        yield stand


EVERYWHERE = [
    ("POST", CHAT),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/rerank"),
    ("POST", "/tokenize"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/tiny"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/version"),
    ("GET", "/load"),
    ("GET", "/v1/realtime"),
    ("GET", "/sleep"),
    ("GET", "/"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
]


def test_without_a_key_every_path_and_method_is_401(guarded: Stand) -> None:
    """R125: also those that do not exist, so that nobody can tell which do."""
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}

    async def scenario() -> None:
        async with await RawClient.connect(guarded.sluice.port) as client:
            for method, (_, path) in itertools.product(methods, EVERYWHERE):
                client.send(request_bytes(path, b"", method))
                answer = await client.answer(head_request=method == "HEAD")
                assert answer.status == 401, (method, path)
        for _, path in EVERYWHERE:
            answer = await ask_once(guarded.sluice.port, request_bytes(path, b"", "GET", upgrade))
            check_own_answer(answer, 401, INVALID, "invalid_api_key")
        for path in ("/healthz", "/readyz"):
            assert (
                await ask_once(guarded.sluice.port, request_bytes(path, b"", "GET"))
            ).status == 200
        assert guarded.upstream.seen == []

    guarded.run(scenario())


def authorization(*values: str) -> bytes:
    lines = "".join(f"Authorization: {value}\r\n" for value in values)
    return f"POST {CHAT} HTTP/1.1\r\nHost: g\r\n{lines}Content-Length: 2\r\n\r\n{{}}".encode(
        "latin-1"
    )


BAD_CREDENTIALS = {
    "no-scheme": authorization(KEY),
    "other-scheme": authorization(f"Basic {KEY}"),
    "joined": authorization(f"Bearer{KEY}"),
    "empty-bearer": authorization("Bearer "),
    "scheme-only": authorization("Bearer"),
    "prefix": authorization(f"Bearer {KEY[:-1]}"),
    "longer": authorization(f"Bearer {KEY}0"),
    "suffix": authorization(f"Bearer {KEY[1:]}"),
    "other-case": authorization(f"Bearer {KEY.upper()}"),
    "name-and-key": authorization(f"Bearer app:{KEY}"),
    "name": authorization("Bearer app"),
    "quoted": authorization(f'Bearer "{KEY}"'),
    "two-words": authorization(f"Bearer {KEY} {KEY}"),
    "two-in-one-line": authorization(f"Bearer {KEY}, Bearer {KEY}"),
    "good-then-bad": authorization(f"Bearer {KEY}", "Bearer x"),
    "bad-then-good": authorization("Bearer x", f"Bearer {KEY}"),
    "twice-the-same": authorization(f"Bearer {KEY}", f"Bearer {KEY}"),
    "not-ascii": authorization(f"Bearer {KEY}\xe9"),
    "wildcard": authorization("Bearer *"),
    "query": request_bytes(f"{CHAT}?api_key={KEY}&key={KEY}"),
    "cookie": request_bytes(CHAT, headers={"Cookie": f"Authorization=Bearer {KEY}"}),
    "proxy-authorization": request_bytes(CHAT, headers={"Proxy-Authorization": f"Bearer {KEY}"}),
    "bad-header-as-well": request_bytes(CHAT, headers={"x-sluice-queue-timeout": "soon"}),
}


@pytest.mark.parametrize("case", BAD_CREDENTIALS)
def test_nothing_but_the_whole_key_in_its_place_opens(guarded: Stand, case: str) -> None:
    """R125"""

    async def scenario() -> None:
        answer = await ask_once(guarded.sluice.port, BAD_CREDENTIALS[case])
        check_own_answer(answer, 401, INVALID, "invalid_api_key")
        assert answer.header("www-authenticate") == "Bearer"
        assert KEY.encode() not in answer.body
        assert guarded.upstream.seen == []
        assert await guarded.outcomes() == {"rejected": 1}

    guarded.run(scenario())


GOOD_CREDENTIALS: dict[str, Headers] = {
    "bearer": {"Authorization": f"Bearer {KEY}"},
    # Schemes have no case (RFC 9110, section 11.1), and vLLM's own check sees none either.
    "lower-case-scheme": {"authorization": f"bearer {KEY}"},
    "another-key": {"Authorization": "Bearer another-key"},
    "anthropic-sdk": {"x-api-key": KEY},
}


@pytest.mark.parametrize("case", GOOD_CREDENTIALS)
def test_the_whole_key_in_its_place_opens(guarded: Stand, case: str) -> None:
    """R125: and the engine never sees it."""

    async def scenario() -> None:
        request = request_bytes(CHAT, headers=GOOD_CREDENTIALS[case])
        assert (await ask_once(guarded.sluice.port, request)).status == 200
        (seen,) = guarded.upstream.seen
        assert KEY.encode() not in seen.raw
        assert b"another-key" not in seen.raw

    guarded.run(scenario())


def test_a_stranger_takes_no_seat_no_place_and_no_reading(guarded: Stand) -> None:
    """R125: refused from the head, also while everything is full, and not counted as load."""

    async def scenario() -> None:
        guarded.upstream.handler = hold = Hold()
        sheds = await guarded.sluice.metric("sluice_shed_total")
        arrivals = await guarded.sluice.metric("sluice_arrivals_total")
        with Burst(guarded.sluice.port, 6) as full:
            await full.send(guarded.request())
            await guarded.sluice.until_metric("sluice_queue_depth", 4)
            unsent = {"Content-Length": "10000000", "Authorization": "Bearer stranger"}
            answer = await ask_once(guarded.sluice.port, request_bytes(CHAT, b"", headers=unsent))
            check_own_answer(answer, 401, INVALID, "invalid_api_key")
            assert await guarded.sluice.metric("sluice_queue_depth") == 4
            assert await guarded.sluice.metric("sluice_shed_total") == sheds
            assert await guarded.sluice.metric("sluice_arrivals_total") == arrivals + 6
            hold.release()
            await full.answers(6)

    guarded.run(scenario())


# What passes.

CANARY = "cAnArY"  # what is written down: test_canaries.py


@on_the_stand
async def test_an_answer_of_the_engine_is_not_ours_to_censor(stand: Stand) -> None:
    """R123: what it says about its own errors passes, keys and all."""
    stand.upstream.handler = json_answer(
        {"error": {"message": f"Incorrect API key provided: {CANARY}"}}, 401
    )
    answer = await ask_once(stand.sluice.port, request_bytes(CHAT))
    assert (answer.status, answer.header("x-sluice-reason")) == (401, None)
    assert CANARY.encode() in answer.body
