"""R123: on real sockets, at debug level, with everything on that talks; no canary is written down.

That every error of the gateway is among those that are provoked is for
tests/scenarios/test_canaries.py; here it is what the libraries and the process could say.
"""

from __future__ import annotations

import asyncio
import re
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import canaries
from tests.support.canaries import BODY, HEADERS, leaks
from tests.support.faulty_gateway import FAULTS, FAULTY
from tests.support.gateway_process import GatewayProcess, eventually, gateway
from tests.support.raw_client import RawAnswer, RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Hold,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
    raw_answer,
    reset_on_receipt,
    silent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CHAT = f"/v1/chat/completions?{canaries.QUERY}"
SAID = canaries.PROMPT.encode()
# Whatever Python has that makes a process say more.
TALKATIVE = {
    "PYTHONASYNCIODEBUG": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONDEVMODE": "1",
    "OTEL_LOG_LEVEL": "debug",
}
MOST_CONNECTIONS = 12

SETTINGS: Mapping[str, object] = {
    "max_in_flight": 1,
    "max_queue_depth": 0,
    "max_body_bytes": 20_000,
    "first_byte_timeout": 0.3,
    "max_connections_per_address": MOST_CONNECTIONS,
    "api_keys": canaries.KEYS,
    "upstream_api_key": canaries.ENGINE_KEY,
    "admin_token": canaries.ADMIN_TOKEN,
    "log_level": "debug",
}


def with_secrets(
    target: str = CHAT, method: str = "POST", body: bytes | None = None, **changed: str
) -> bytes:
    fields = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return request_bytes(target, BODY if body is None else body, method, fields)


UNREADABLE = (
    *(with_secrets(body=garbage) for garbage in (b'{"prompt": "' + SAID, b'["%b"]' % SAID, SAID)),
    b"POST %b HTTP/1.1\r\n%b : %b\r\n\r\n" % (CHAT.encode(), SAID, SAID),
    b"%b /%b HTTP/1.1\r\n\r\n" % (SAID, SAID),
    b"GET http://%b:%b@/ HTTP/1.1\r\n\r\n" % (SAID, SAID),
    with_secrets(body=SAID + b"\r\n", transfer_encoding="chunked"),
    b"GET /%b HTTP/1.1\r\nx: %b\r\n\r\n" % (SAID, SAID * 3_000),
)

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
ENGINE_FAULTS = (
    raw_answer(b"HTTP/1.1 500 No\r\nSet-Cookie: %b\r\nContent-Length: 0\r\n\r\n" % SAID),
    raw_answer(b"%b %b\r\n\r\n" % (SAID, SAID), "close"),
    raw_answer(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % SAID, "close"),
    raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\n" % SAID, "close"),
    raw_answer(STREAM + b"Transfer-Encoding: chunked\r\n\r\n%b\r\n" % SAID, "close"),
    raw_answer(STREAM + b"Content-Length: 99\r\n\r\n" + SAID, "reset"),
    json_answer({"error": {"message": f"wrong key: {canaries.ENGINE_KEY}"}}, 401),
    json_answer({"error": {"message": canaries.PROMPT}}, 500),
    close_on_receipt,
    reset_on_receipt,
    silent,
)


@dataclass
class Watched:
    """A gateway that is asked, and all that it has said to whom."""

    sluice: GatewayProcess
    upstream: ScriptedUpstream
    told: list[RawAnswer] = field(default_factory=list)
    pages: list[bytes] = field(default_factory=list)

    async def ask(self, *requests: bytes) -> None:
        self.told += [await ask_once(self.sluice.port, request) for request in requests]

    async def refuse(self) -> None:
        """All that the gateway refuses by itself."""
        await self.ask(
            with_secrets(authorization=f"Bearer {canaries.WRONG_KEY}"),
            with_secrets(authorization=f"Basic {canaries.WRONG_KEY}"),
            with_secrets(authorization="", x_api_key=canaries.WRONG_KEY),
            with_secrets(f"/sleep/{canaries.PROMPT}?{canaries.QUERY}"),
            with_secrets(f"/v1/models?{canaries.QUERY}", "PATCH"),
            with_secrets(x_sluice_queue_timeout=canaries.PROMPT),
            with_secrets(body=SAID * 5_000),
            *UNREADABLE,
        )
        crowd = [await RawClient.connect(self.sluice.port) for _ in range(MOST_CONNECTIONS)]
        await self.ask(with_secrets())
        for client in crowd:
            client.close()

    async def fail(self) -> None:
        """All that engines do wrong."""
        for self.upstream.handler in ENGINE_FAULTS:
            await self.ask(with_secrets())
            await self.sluice.until_idle()

    async def look(self) -> None:
        """At every page, and as a stranger where a token is asked for."""
        token, wrong = f"Bearer {canaries.ADMIN_TOKEN}", f"Bearer {canaries.WRONG_KEY}"
        for method, target, said in (
            ("GET", "/metrics", wrong),
            ("GET", "/status", wrong),
            ("GET", "/status.json", wrong),
            ("GET", "/readyz", wrong),
            ("GET", f"/{canaries.PROMPT}", wrong),
            ("PATCH", "/admin/settings", wrong),
            ("PATCH", "/admin/settings", token),
            ("GET", "/admin/settings", token),
        ):
            request = with_secrets(target, method, authorization=said)
            answer = await ask_once(self.sluice.admin_port, request)
            self.pages += [str(answer.headers).encode(), answer.body]
        async with await RawClient.connect(self.sluice.admin_port) as events:
            events.send(request_bytes("/status/events", b"", "GET"))
            answer = await events.head()
            self.pages += [await events.chunk(answer) for _ in range(3)]
        process = Path(f"/proc/{self.sluice.pid}")
        self.pages += [(process / name).read_bytes() for name in ("cmdline", "comm")]

    async def end(self) -> None:
        """A request runs, another comes, and the engine goes away under both."""
        self.upstream.handler = Hold()
        async with await RawClient.connect(self.sluice.port) as running:
            running.send(with_secrets())
            await self.upstream.until(lambda: self.upstream.inflight == 1)
            await self.ask(with_secrets())
            self.sluice.terminate()
            await self.sluice.until_metric("sluice_draining", 1)
            await self.ask(with_secrets())
            self.upstream.stop_listening()
            self.upstream.reset_all()
            self.told.append(await running.answer())
            await self.sluice.process.wait()


@pytest.mark.parametrize(("client", "log_format"), [("pool", "json"), ("httpx", "console")])
def test_no_key_no_query_and_no_text_is_written_down(
    client: str, log_format: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"

    async def scenario() -> tuple[Watched, list[bytes]]:
        async with AsyncExitStack() as stack:
            collector = await stack.enter_async_context(ScriptedUpstream(json_answer({})))
            upstream = await stack.enter_async_context(ScriptedUpstream(early=True))
            settings = {
                **SETTINGS,
                "log_format": log_format,
                "upstream_client": client,
                "trace_file": trace,
                "otlp_endpoint": collector.url,
            }
            running = gateway(upstream.url, environment=TALKATIVE, **settings)
            watched = Watched(await stack.enter_async_context(running), upstream)
            await watched.ask(with_secrets())
            await watched.refuse()
            await watched.fail()
            await watched.look()
            await watched.end()
            spans = [request.raw for request in collector.seen]
        return watched, spans

    watched, spans = asyncio.run(scenario())
    assert len(watched.sluice.log) > 20
    assert spans
    own = [one.body for one in watched.told if one.header("x-sluice-reason")]
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert leaks([*watched.sluice.log, *own, *watched.pages, *spans, *files]) == []
    assert {one.header("x-sluice-reason") for one in watched.told} >= {
        None, "invalid_api_key", "unknown_path", "method_not_allowed", "bad_request",
        "body_too_large", "upstream_protocol", "upstream_closed", "upstream_timeout",
        "queue_full", "draining", "too_many_connections",
    }  # fmt: skip


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_fault_of_the_gateway_itself_quotes_nobody(log_format: str) -> None:
    """Also where no request handler catches it, and when its threads are dumped at its end."""

    async def scenario() -> list[str]:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url,
                run_by=FAULTY,
                environment=TALKATIVE,
                **{**SETTINGS, "log_format": log_format},
            ) as sluice,
        ):
            for fault in FAULTS:
                async with await RawClient.connect(sluice.port) as client:
                    target = f"/v1/models/{fault}?{canaries.QUERY}"
                    client.send(with_secrets(target, connection="close"))
                    await client.rest()
            await eventually(lambda: count_of(sluice.log, "ValueError") >= len(FAULTS))
            process = Path(f"/proc/{sluice.pid}")
            limits = (process / "limits").read_text()
            assert re.search(r"^Max core file size +0 ", limits, re.MULTILINE)
            sluice.process.send_signal(signal.SIGABRT)
            await sluice.process.wait()
            await eventually(lambda: any("Fatal Python error" in line for line in sluice.log))
            log = sluice.log.copy()
            sluice.log.clear()  # these faults are what was meant
            return log

    log = asyncio.run(scenario())
    assert count_of(log, "Traceback") >= len(FAULTS)
    assert leaks(log) == []


def count_of(log: list[str], word: str) -> int:
    return sum(line.count(word) for line in log)


def test_a_store_that_refuses_our_password_is_told_of_without_it() -> None:
    """Nor is it on a page."""
    url = f"redis://user:{canaries.REDIS_PASSWORD}@127.0.0.1"
    refusal = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(refusal)
        writer.close()

    async def scenario() -> tuple[list[str], list[bytes]]:
        store = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = store.sockets[0].getsockname()[1]
        async with (
            store,
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url,
                environment=TALKATIVE,
                redis_url=f"{url}:{port}/0",
                max_in_flight=1,
                log_level="debug",
                log_format="json",
                wait_until_ready=False,
            ) as sluice,
        ):
            await eventually(lambda: count_of(sluice.log, "refuses this gateway") > 0)
            asked = [request_bytes(path, b"", "GET") for path in ("/metrics", "/status.json")]
            pages = [(await ask_once(sluice.admin_port, one)).body for one in asked]
        return sluice.log, pages

    log, pages = asyncio.run(scenario())
    assert count_of(log, "invalid username-password pair") > 0
    assert leaks([*log, *pages]) == []
