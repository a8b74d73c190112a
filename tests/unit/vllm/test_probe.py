"""One question to an engine, on real sockets: every way not to get an answer has its words."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy.vllm.probe import Answer, Fault, NoAnswer, Probe
from tests.support.engine_transport import ScriptedEngine, fails_with, ok
from tests.support.scripted_upstream import unresponsive_port
from tests.support.virtual_time import hold_up, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Serving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SOON_S = 5.0


@asynccontextmanager
async def serving(serve: Serving) -> AsyncIterator[str]:
    """A server on a free port, and its root URL."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(65_536)
            await serve(reader, writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def answering(raw: bytes) -> Serving:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return serve


async def ask(root_url: str, timeout_s: float = SOON_S, max_bytes: int = 0) -> Answer | NoAnswer:
    async with Probe(root_url) as probe:
        return await probe.get("/health", timeout_s, max_bytes)


async def ask_one(raw: bytes, max_bytes: int = 0) -> Answer | NoAnswer:
    async with serving(answering(raw)) as url:
        return await ask(url, max_bytes=max_bytes)


def test_an_answer_has_its_status_and_its_body() -> None:
    answer = asyncio.run(ask_one(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5))
    assert answer == Answer(200, b"hello")


def test_an_answer_of_a_gateway_is_told_from_an_engines() -> None:
    of_sluice = (
        b"HTTP/1.1 404 Not Found\r\nX-Sluice-Reason: unknown_path\r\ncontent-length: 0\r\n\r\n"
    )
    assert asyncio.run(ask_one(of_sluice)) == Answer(404, b"", from_sluice=True)


def test_a_body_longer_than_asked_for_is_not_kept() -> None:
    answer = asyncio.run(ask_one(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", 5))
    assert answer == Answer(200, None)


def test_an_endless_body_is_given_up_at_the_bound() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async def scenario() -> Answer | NoAnswer:
        async with serving(serve) as url:
            return await ask(url, max_bytes=1_000_000)

    assert asyncio.run(scenario()) == Answer(200, None)


def test_a_status_is_enough_when_no_body_is_asked_for() -> None:
    answer = asyncio.run(ask_one(b"HTTP/1.1 503 Dead\r\nContent-Length: 1000000\r\n\r\n"))
    assert answer == Answer(503, b"")


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    answer = asyncio.run(ask_one(b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\n\r\n"))
    assert answer == Answer(307, b"")


def test_a_refused_connection_is_an_engine_that_is_absent() -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can listen there either
        bound.bind(("127.0.0.1", 0))
        answer = asyncio.run(ask(f"http://127.0.0.1:{bound.getsockname()[1]}"))
    assert answer == NoAnswer(Fault.ABSENT, "connection refused (ECONNREFUSED)")


def test_a_name_that_does_not_exist_is_an_engine_that_is_absent() -> None:
    answer = asyncio.run(ask_with(socket.gaierror(socket.EAI_NONAME, "unknown")))
    assert answer == NoAnswer(Fault.ABSENT, "the host name cannot be resolved (unknown)")


def test_a_name_server_that_fails_says_nothing_about_the_engine() -> None:
    answer = asyncio.run(ask_with(socket.gaierror(socket.EAI_AGAIN, "try again")))
    assert answer == NoAnswer(Fault.UNCLEAR, "the host name cannot be resolved (try again)")


async def ask_with(error: OSError) -> Answer | NoAnswer:
    async def failing(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("failed", request=request) from error

    async with Probe("http://engine", transport=ScriptedEngine({"/health": failing})) as probe:
        return await probe.get("/health", SOON_S)


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN])
def test_an_unreachable_host_is_an_engine_that_is_absent(number: int) -> None:
    answer = asyncio.run(ask_scripted(number))
    assert isinstance(answer, NoAnswer)
    assert answer.fault is Fault.ABSENT
    assert errno.errorcode[number] in answer.reason


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOMEM])
def test_what_we_run_out_of_says_nothing_about_the_engine(number: int) -> None:
    answer = asyncio.run(ask_scripted(number))
    assert isinstance(answer, NoAnswer)
    assert answer.fault is Fault.UNCLEAR
    assert errno.errorcode[number] in answer.reason


async def ask_scripted(number: int) -> Answer | NoAnswer:
    engine = ScriptedEngine({"/health": fails_with(number)})
    async with Probe("http://engine", transport=engine) as probe:
        return await probe.get("/health", SOON_S)


def test_one_of_several_addresses_that_refuses_is_found_in_the_group() -> None:
    group = ExceptionGroup("several", [ConnectionRefusedError(errno.ECONNREFUSED, "refused")])

    async def failing(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("failed", request=request) from group

    async def scenario() -> Answer | NoAnswer:
        async with Probe("http://engine", transport=ScriptedEngine({"/health": failing})) as probe:
            return await probe.get("/health", SOON_S)

    answer = asyncio.run(scenario())
    assert answer == NoAnswer(Fault.ABSENT, "connection refused (ECONNREFUSED)")


def test_an_engine_that_takes_a_connection_and_says_nothing_is_silent() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario() -> Answer | NoAnswer:
        async with serving(serve) as url:
            return await ask(url, timeout_s=0.05)

    assert asyncio.run(scenario()) == NoAnswer(Fault.SILENT, "no answer within 0.05 s")


def test_a_host_that_drops_what_is_sent_to_it_is_not_slow_but_gone() -> None:
    async def scenario() -> Answer | NoAnswer:
        async with (
            unresponsive_port() as port,
            Probe(f"http://127.0.0.1:{port}", connect_timeout_s=0.05) as probe,
        ):
            return await probe.get("/health", SOON_S)

    assert asyncio.run(scenario()) == NoAnswer(Fault.BROKEN, "no connection within 0.05 s")


@pytest.mark.parametrize("fault", [TimeoutError, httpx.ConnectTimeout])
@pytest.mark.parametrize(("for_s", "found"), [(0.5, False), (60.0, True)])
def test_a_limit_that_runs_out_while_this_process_is_held_up_says_nothing_about_the_engine(
    fault: type[Exception], for_s: float, found: bool
) -> None:
    async def failing(_: httpx.Request) -> httpx.Response:
        hold_up(SOON_S + for_s)
        raise fault("")

    async def scenario() -> None:
        engine = ScriptedEngine({"/health": failing})
        async with Probe("http://e", transport=engine, connect_timeout_s=SOON_S) as probe:
            answer = await probe.get("/health", SOON_S)
        assert isinstance(answer, NoAnswer)
        assert (answer.fault is Fault.UNCLEAR) is found
        assert ("held up" in answer.reason) is found

    run(scenario())


def test_a_slow_tls_handshake_says_nothing_about_the_engine() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scenario() -> Answer | NoAnswer:
        async with (
            serving(serve) as url,
            Probe(url.replace("http:", "https:"), connect_timeout_s=0.05) as probe,
        ):
            return await probe.get("/health", SOON_S)

    assert asyncio.run(scenario()) == NoAnswer(Fault.SILENT, "no connection within 0.05 s")


def test_the_time_is_for_the_whole_answer_and_not_for_each_read() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def scenario() -> Answer | NoAnswer:
        async with serving(serve) as url:
            return await ask(url, timeout_s=0.1, max_bytes=1_000_000)

    assert asyncio.run(scenario()) == NoAnswer(Fault.SILENT, "no answer within 0.1 s")


@pytest.mark.parametrize("raw", [b"", b"\x00\xff\r\n\r\n", b"+PONG\r\n", b"HTTP/1.1 ?\r\n\r\n"])
def test_what_is_no_http_answer_is_broken(raw: bytes) -> None:
    answer = asyncio.run(ask_one(raw))
    assert isinstance(answer, NoAnswer)
    assert answer.fault is Fault.BROKEN
    assert answer.reason.startswith("no HTTP answer: ")


def test_strange_bytes_are_shown_in_part_only() -> None:
    answer = asyncio.run(ask_one(b"?" * 60_000 + b"\r\n\r\n"))
    assert isinstance(answer, NoAnswer)
    assert len(answer.reason) < 300


def test_tls_to_a_server_without_it_is_broken() -> None:
    async def scenario() -> Answer | NoAnswer:
        async with serving(answering(b"HTTP/1.1 400 Bad\r\n\r\n")) as url:
            return await ask(url.replace("http:", "https:"))

    answer = asyncio.run(scenario())
    assert isinstance(answer, NoAnswer)
    assert answer.fault is Fault.BROKEN
    assert answer.reason.startswith("TLS failed: ")


def test_the_key_is_sent_and_asked_for_in_no_other_way() -> None:
    async def scenario(key: str | None) -> httpx.Headers:
        engine = ScriptedEngine({"/health": ok()})
        async with Probe("http://engine/prefix", key, engine) as probe:
            await probe.get("/health", SOON_S)
        assert str(engine.asked[0].url) == "http://engine/prefix/health"
        return engine.asked[0].headers

    assert asyncio.run(scenario("sk-1"))["authorization"] == "Bearer sk-1"
    assert "authorization" not in asyncio.run(scenario(None))


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    answer = asyncio.run(ask_one(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    assert answer == Answer(200, b"")


def test_every_question_takes_a_connection_of_its_own() -> None:
    peers: set[object] = set()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.add(writer.get_extra_info("peername"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def scenario() -> None:
        async with serving(serve) as url, Probe(url) as probe:
            for _ in range(3):
                assert await probe.get("/health", SOON_S) == Answer(200, b"")

    asyncio.run(scenario())
    assert len(peers) == 3


def test_an_engine_with_an_address_is_asked_there_by_its_name() -> None:
    async def scenario() -> httpx.Request:
        engine = ScriptedEngine({"/p/health": ok()})
        async with Probe("https://vllm:8443/p", transport=engine, ip="fd00::7") as probe:
            assert await probe.get("/health", SOON_S) == Answer(200, b"")
        return engine.asked[0]

    asked = asyncio.run(scenario())
    assert str(asked.url) == "https://[fd00::7]:8443/p/health"
    assert asked.headers.get_list("host") == ["vllm:8443"]
    assert asked.extensions["sni_hostname"] == "vllm"


def test_a_named_engine_is_asked_on_a_real_socket_too() -> None:
    async def scenario() -> Answer | NoAnswer:
        async with serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as url:
            named = url.replace("127.0.0.1", "engine.invalid")
            async with Probe(named, ip="127.0.0.1") as probe:
                return await probe.get("/health", SOON_S)

    assert asyncio.run(scenario()) == Answer(200, b"")
