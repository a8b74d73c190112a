"""The client's connection, byte by byte. On real sockets, and with the gateway: tests/e2e."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from proxy.edge.client_connection import (
    ClientConnection,
    ConnectionRefusal,
    client_connection,
)
from proxy.edge.connection import ConnectionLimits, SluiceProtocol
from proxy.edge.entrance import WrittenAnswer
from proxy.edge.response_cycle import ResponseCycle
from proxy.edge.unreadable import MAX_FIELDS, MAX_HEAD_BYTES
from tests.support.fake_wire import Wire
from tests.support.knots import no_knots_of
from tests.support.scripted_app import error_of
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LIMITS = ConnectionLimits(request_s=30, write_s=60, idle_s=75)
GET = b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"


async def whole_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        body += message["body"]
        if not message["more_body"]:
            return body


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        await asyncio.sleep(1)


async def answer(send: Send, body: bytes = b"ok", status: int = 200) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, scope["raw_path"] + b"|" + await whole_body(receive))


class Waiting:
    """An app that answers when it is told to, and notes which clients left before."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self._go = asyncio.Event()

    def go(self) -> None:
        self._go.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await whole_body(receive)
        gone = asyncio.ensure_future(disconnected(receive))
        may_go = asyncio.ensure_future(self._go.wait())
        await asyncio.wait({gone, may_go}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            self.left.append(scope["raw_path"])
        else:
            await answer(send, scope["raw_path"])
        for task in (gone, may_go):
            task.cancel()
        await asyncio.wait({gone, may_go})


def refusal(wire: Wire) -> tuple[int, dict[str, object]]:
    """Status and error of an answer that the connection itself made; it is the last of all."""
    head, _, body = wire.sent.rpartition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    start = max(index for index, line in enumerate(lines) if line.startswith(b"HTTP/1.1 "))
    fields = dict(line.split(b": ", 1) for line in lines[start + 1 :])
    error = error_of(body)
    assert fields[b"content-length"] == b"%d" % len(body)
    assert fields[b"content-type"] == b"application/json"
    assert fields[b"x-sluice-reason"] == str(error["code"]).encode()
    assert fields[b"x-request-id"]
    assert fields[b"connection"] == b"close"
    assert wire.ended == ["close"]
    return int(lines[start].split()[1]), error


def bodies(wire: Wire) -> list[bytes]:
    return [part.partition(b"\r\n\r\n")[2] for part in wire.sent.split(b"HTTP/1.1 ")[1:]]


class Bouncer:
    """An app that answers at once for `/full`, and otherwise echoes what it is asked in a task."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def enter(self, scope: Scope, _receive: Receive, _send: Send) -> WrittenAnswer | ASGIApp:
        self.asked.append(scope["raw_path"])
        if scope["raw_path"] == b"/full":
            return WrittenAnswer(b"HTTP/1.1 503 Full\r\ncontent-length: 4\r\n", b"full")
        return echo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["raw_path"] == b"/full":
            await answer(send, b"late")
        else:
            await echo(scope, receive, send)


# What comes with a body ------------------------------------------------------------------------

CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def test_trailers_are_no_headers_however_they_come() -> None:
    """In one read with the head, they stood among its fields: a key, a tenant, a priority that
    whatever is in front of us had never seen."""

    async def scenario() -> None:
        request = CHUNKED + b"2\r\nok\r\n0\r\nauthorization: Bearer k\r\nhost: y\r\n\r\n"
        for size in (1, len(request)):
            wire = Wire(echo)
            for start in range(0, len(request), size):
                wire.receives(request[start : start + size])
            await wire.done()
            names = [name for name, _ in wire.calls[0]["headers"]]
            assert names == [b"host", b"transfer-encoding"]
            assert bodies(wire) == [b"/|ok"]
            assert wire.ended == ["close"]

    run(scenario())


def test_trailers_behind_an_answer_end_the_connection() -> None:
    """One may be `Connection: close`, and then the parser would drop the next request."""

    async def scenario() -> None:
        async def early(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
            await answer(send)

        wire = Wire(early)
        wire.receives(CHUNKED + b"2\r\nok\r\n")
        await wire.done()
        assert wire.ended == []
        wire.receives(b"0\r\nconnection: close\r\n\r\n" + GET % 2)
        assert wire.ended == ["close"]

    run(scenario())


def test_between_reads_of_a_chunked_body_that_nobody_takes_others_have_their_turn() -> None:
    """3 MB in chunks of a byte, to a gateway that had refused them, held all others up for 350 ms:
    libuv reads up to 32 times in a turn."""

    async def scenario() -> None:
        wire = Wire(Bouncer())
        wire.receives(CHUNKED.replace(b"/", b"/full", 1) + b"1\r\nx\r\n")
        for _ in range(3):
            wire.receives(b"1\r\nx\r\n" * 1000)
            assert not wire.transport.reads
            await settle()
            assert wire.transport.reads
        wire.receives(b"1\r\nx\r\n0\r\n\r\n" + GET % 2)
        assert wire.transport.reads
        await wire.done()
        assert bodies(wire) == [b"full", b"/2|"]

        wire.receives(CHUNKED.replace(b"/", b"/full", 1) + b"1\r\nx\r\n")
        wire.transport.close()
        await settle()
        assert not wire.transport.reads, "a connection that ends is left alone"

    run(scenario())


def test_a_chunked_body_that_waits_to_be_taken_is_read_on_only_when_it_was() -> None:
    async def scenario() -> None:
        wire = Wire(Busy())
        wire.receives(CHUNKED + b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n2\r\nxx\r\n")
        await settle()
        assert not wire.transport.reads
        wire.client_leaves()
        await wire.done()

    run(scenario())


@pytest.mark.parametrize("endless", [b"0\r\nx: ", b"2;", b"2\r\nok\r\n0\r\nx: y\r\nz: "])
def test_what_is_around_a_body_is_bounded(endless: bytes) -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(CHUNKED + endless)
        for _ in range(MAX_HEAD_BYTES // 1000 + 1):
            assert wire.sent == b""
            wire.receives(b"a" * 1000)
        await wire.done()
        assert refusal(wire)[0] == 431

    run(scenario())


AROUND = {
    "trailers": CHUNKED + b"2\r\nok\r\n0\r\n" + b"x: %b\r\n" % (b"y" * 995) * 67 + b"\r\n",
    "one trailer": CHUNKED + b"0\r\nx: " + b"y" * 66_000 + b"\r\n\r\n",
    "an extension": CHUNKED + b"2;" + b"x" * 66_000 + b"\r\nok\r\n0\r\n\r\n",
    "extensions": CHUNKED + b"2;%b\r\nok\r\n" % (b"x" * 995) * 67 + b"0\r\n\r\n",
    "zeros": CHUNKED + b"0" * 66_000 + b"2\r\nok\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("cut", [1_000, 70_000])
@pytest.mark.parametrize("kind", list(AROUND))
def test_what_is_around_a_body_is_bounded_in_all_however_it_comes(kind: str, cut: int) -> None:
    """It passed if it came in one read with data, or a little with each byte of data."""

    async def scenario() -> None:
        request = AROUND[kind]
        wire = Wire(echo)
        for start in range(0, len(request), cut):
            wire.receives(request[start : start + cut])
            await settle()
        await wire.done()
        assert refusal(wire)[0] == 431
        assert wire.connection.refusal == ConnectionRefusal(431, "bad_request")

    run(scenario())


@pytest.mark.parametrize("cut", [1_000, 70_000])
@pytest.mark.parametrize("kind", list(AROUND))
def test_what_is_around_a_body_may_be_there(kind: str, cut: int) -> None:
    """Below the bound, by as much as the others are above it, behind a head of its own size."""

    async def scenario() -> None:
        head = CHUNKED.replace(b"\r\n\r\n", b"\r\nx: " + b"h" * 60_000 + b"\r\n\r\n")
        shorter = AROUND[kind].replace(b"%b" % (b"x" * 995), b"x" * 960)
        for letter in (b"y", b"x", b"0"):
            shorter = shorter.replace(letter * 66_000, letter * 65_000)
        shorter = shorter.replace(b"y" * 995, b"y" * 960)
        request = shorter.replace(CHUNKED, head, 1)
        wire = Wire(echo)
        for start in range(0, len(request), cut):
            wire.receives(request[start : start + cut])
        await wire.done()
        assert bodies(wire)[0].startswith(b"/|")

    run(scenario())


def test_a_long_body_in_small_pieces_is_not_counted_as_what_is_around_it() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(CHUNKED.replace(b"\r\n\r\n", b"\r\nx: " + b"y" * 60_000 + b"\r\n\r\n"))
        for _ in range(20_000):
            wire.receives(b"5\r\n")
            wire.receives(b"hello\r\n")
        wire.receives(b"0\r\n\r\n")
        await wire.done()
        assert len(bodies(wire)[0]) == len(b"/|") + 100_000
        wire.client_leaves()

    run(scenario())


@pytest.mark.parametrize("coding", [b"gzip, chunked", b",chunked", b"chunked;q=1"])
def test_nothing_is_read_behind_a_body_that_may_end_elsewhere(coding: bytes) -> None:
    """Whatever is in front of us may have found its end in another place."""

    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(CHUNKED.replace(b"chunked", coding) + b"0\r\n\r\n" + GET % 2)
        await wire.done()
        assert refusal(wire)[0] == 400
        assert wire.calls == []

    run(scenario())


def test_what_comes_behind_a_body_with_an_upgrade_is_no_part_of_it() -> None:
    async def scenario() -> None:
        upgrade = POST.replace(b"host", b"connection: upgrade\r\nupgrade: h2c\r\nhost")
        wire = Wire(echo)
        wire.receives(upgrade % (5, b"hello") + POST % (4, b"more"))
        await wire.done()
        assert bodies(wire) == [b"/|hello"]
        assert wire.ended == ["close"]

    run(scenario())


# Requests that can be read ---------------------------------------------------------------------


def test_a_request_is_the_same_however_it_is_cut() -> None:
    async def scenario() -> None:
        request = POST.replace(b"/ ", b"/v1/x%%2Fy?a=b ") % (5, b"hello")
        answers = set()
        for size in (1, 2, 7, len(request)):
            wire = Wire(echo)
            for start in range(0, len(request), size):
                wire.receives(request[start : start + size])
                await settle()
            await wire.done()
            answers.add(wire.sent)
            assert wire.calls[0]["query_string"] == b"a=b"
            assert wire.ended == []
            wire.client_leaves()
        assert len(answers) == 1
        assert answers.pop().endswith(b"/v1/x%2Fy|hello")

    run(scenario())


@pytest.mark.parametrize(
    ("target", "raw_path", "path", "query"),
    [
        (b"/v1/models", b"/v1/models", "/v1/models", b""),
        (b"/a%2Fb?x=%41", b"/a%2Fb", "/a/b", b"x=%41"),
        (b"/a?b?c", b"/a", "/a", b"b?c"),
        (b"//evil.test/x", b"//evil.test/x", "//evil.test/x", b""),
        (b"/v1/../sleep", b"/v1/../sleep", "/v1/../sleep", b""),
        (b"/%00", b"/%00", "/\x00", b""),
        (b"http://evil.test/a?b", b"/a", "/a", b"b"),
        (b"http://evil.test", b"", "", b""),
    ],
)
def test_a_target_is_taken_apart_and_nothing_in_it_is_normalized(
    target: bytes, raw_path: bytes, path: str, query: bytes
) -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        await wire.done()
        (scope,) = wire.calls
        assert (scope["raw_path"], scope["path"]) == (raw_path, path)
        assert scope["query_string"] == query
        wire.client_leaves()

    run(scenario())


def test_headers_keep_their_order_and_number_and_lose_their_case() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(b"GET / HTTP/1.1\r\nX-B: 1\r\nx-a: \xff\r\nX-B:  2\r\nHost: h\r\n\r\n")
        await wire.done()
        assert wire.calls[0]["headers"] == [
            (b"x-b", b"1"),
            (b"x-a", b"\xff"),
            (b"x-b", b"2"),
            (b"host", b"h"),
        ]
        wire.client_leaves()

    run(scenario())


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        for number in range(3):
            wire.receives(GET % number)
            await wire.done()
        assert bodies(wire) == [b"/0|", b"/1|", b"/2|"]
        assert wire.ended == []
        wire.client_leaves()

    run(scenario())


def test_a_connection_that_is_idle_for_long_is_closed() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(GET % 1)
        await wire.done()
        now = asyncio.get_running_loop().time()
        wire.protocol.enforce_time_limits(now + 74, LIMITS)
        assert wire.ended == []
        wire.protocol.enforce_time_limits(now + 75, LIMITS)
        assert wire.ended == ["close"]

    run(scenario())


def test_a_connection_that_is_used_again_is_not_idle() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        wire = Wire(waiting)
        wire.receives(GET % 1)
        now = asyncio.get_running_loop().time()
        wire.protocol.enforce_time_limits(now + 1000, LIMITS)
        assert wire.ended == []
        waiting.go()
        await wire.done()
        wire.client_leaves()

    run(scenario())


def test_a_request_to_upgrade_is_served_and_its_connection_closed() -> None:
    """As Java's HTTP client sends it; the parser cannot go on after it."""

    async def scenario() -> None:
        wire = Wire(echo)
        upgrade = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: x\r\n"
        wire.receives(b"GET /1 HTTP/1.1\r\nhost: x\r\n" + upgrade + b"\r\n")
        await wire.done()
        assert bodies(wire) == [b"/1|"]
        assert wire.ended == ["close"]

    run(scenario())


OFFER_H2C = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: x\r\n"


@pytest.mark.parametrize("cut", [0, 20, 150, 186, 190])
@pytest.mark.parametrize(
    "framed",
    [b"content-length: 4\r\n\r\nbody", b"transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"],
    ids=["length", "chunked"],
)
def test_a_request_to_upgrade_keeps_its_body(framed: bytes, cut: int) -> None:
    """As Java's client posts: the parser would skip the body."""

    async def scenario() -> None:
        wire = Wire(echo)
        request = b"POST /1 HTTP/1.1\r\nhost: x\r\n" + OFFER_H2C + framed
        for piece in (request[:cut], request[cut:]):
            if piece:
                wire.receives(piece)
        await wire.done()
        assert bodies(wire) == [b"/1|body"]
        assert wire.ended == ["close"]

    run(scenario())


def test_a_bad_body_after_a_request_to_upgrade_is_refused() -> None:
    async def scenario() -> None:
        wire = Wire(Waiting())
        chunked = b"transfer-encoding: chunked\r\n\r\nzz\r\n"
        wire.receives(b"POST /1 HTTP/1.1\r\nhost: x\r\n" + OFFER_H2C + chunked)
        assert refusal(wire)[0] == 400
        await wire.done()

    run(scenario())


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
    ids=["no host", "two hosts", "two hosts in 1.0", "no version"],
)
def test_a_request_that_does_not_say_one_host_in_a_version_we_speak_is_refused(head: bytes) -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(head)
        assert refusal(wire)[0] == 400
        assert wire.calls == []

    run(scenario())


def test_a_head_that_is_refused_is_answered_on_a_connection_that_was_kept_too() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(GET % 1)
        await wire.done()
        wire.receives(b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n")
        first, second = bodies(wire)
        assert (first, error_of(second)["code"]) == (b"/1|", "bad_request")
        assert wire.ended == ["close"]
        assert len(wire.calls) == 1

    run(scenario())


def test_an_old_client_need_not_say_the_host() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(b"GET /1 HTTP/1.0\r\n\r\n")
        await wire.done()
        assert bodies(wire) == [b"/1|"]

    run(scenario())


class Busy:
    """An app that does not ask for its client's messages."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})


def test_a_body_is_taken_whole_once_every_byte_of_it_is_here() -> None:
    async def scenario() -> None:
        wire = Wire(Busy())
        wire.receives(POST % (4, b"ab"))
        await settle()
        assert wire.connection.take_whole_body() is None
        wire.receives(b"cd")
        assert wire.connection.take_whole_body() == b"abcd"
        wire.client_leaves()
        await settle()
        assert wire.connection.take_whole_body() is None
        await wire.done()

    run(scenario())


def test_after_a_large_body_was_taken_the_connection_is_read_on() -> None:
    async def scenario() -> None:
        wire = Wire(Busy())
        wire.receives(POST % (100_000, b"x" * 100_000))
        await settle()
        assert not wire.transport.reads
        assert wire.connection.take_whole_body() == b"x" * 100_000
        assert wire.transport.reads
        await wire.done()

    run(scenario())


# One after the other ---------------------------------------------------------------------------


def test_requests_in_one_write_are_answered_in_their_order() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(GET % 1 + POST % (2, b"hi") + GET % 3)
        await wire.done()
        assert bodies(wire) == [b"/1|", b"/|hi", b"/3|"]
        wire.client_leaves()

    run(scenario())


def test_a_client_that_leaves_is_noticed_behind_a_request_that_waits_its_turn() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        wire.receives(GET % 2)
        await settle()
        assert wire.transport.reads  # else the loss would not be seen
        wire.client_leaves()
        await wire.done()
        assert app.left == [b"/1"]
        assert len(wire.calls) == 1  # nobody is there for the second one's answer

    run(scenario())


FULL = POST.replace(b"/ ", b"/full ")


@pytest.mark.parametrize("cut", [0, 10, len(FULL % (5, b""))])
def test_an_answer_that_needs_no_body_is_there_before_any_task_runs(cut: int) -> None:
    async def scenario() -> None:
        wire = Wire(Bouncer())
        request = FULL % (5, b"hello")
        wire.receives(request[:cut])
        wire.receives(request[cut:])
        assert bodies(wire) == [b"full"]
        wire.receives(POST % (2, b"hi"))  # what came of the first body is not in its way
        await wire.done()
        assert bodies(wire) == [b"full", b"/|hi"]
        assert wire.ended == []
        wire.client_leaves()

    run(scenario())


def test_answers_at_once_and_others_keep_their_order() -> None:
    async def scenario() -> None:
        wire = Wire(Bouncer())
        full = FULL % (1, b"x")
        wire.receives(full + full + GET % 1 + full + full + GET % 2 + full)
        await wire.done()
        assert bodies(wire) == [b"full", b"full", b"/1|", b"full", b"full", b"/2|", b"full"]
        wire.client_leaves()

    run(scenario())


def test_a_thousand_requests_in_one_write_are_too_many_even_to_refuse() -> None:
    async def scenario() -> None:
        app = Bouncer()
        wire = Wire(app)
        wire.receives((FULL % (0, b"")) * 1000)
        await wire.done()
        assert (bodies(wire), len(app.asked)) == ([b"full"], 1)
        assert wire.ended == ["close"]

    run(scenario())


CLOSES = FULL.replace(b"host: x", b"host: x\r\nconnection: close")


@pytest.mark.parametrize("cut", [0, 1])
def test_a_connection_does_not_end_before_the_body_is_there(cut: int) -> None:
    """What is unread when it is closed makes the kernel send a reset, which can beat the answer."""

    async def scenario() -> None:
        app = Bouncer()
        wire = Wire(app)
        request = CLOSES % (2, b"hi")
        wire.receives(request[: len(request) - cut])
        assert len(app.asked) == 1 - cut
        await wire.done()
        assert bodies(wire) == [b"late" if cut else b"full"]
        assert wire.ended == ["close"]

    run(scenario())


@pytest.mark.parametrize(
    "request_bytes",
    [
        FULL.replace(b"host: x", b"host: x\r\nexpect: 100-continue") % (2, b"hi"),
        FULL.replace(b"content-length: %d", b"transfer-encoding: chunked") % b"zz\r\n",
    ],
)
def test_who_asked_first_or_sends_nonsense_is_not_answered_at_once(request_bytes: bytes) -> None:
    async def scenario() -> None:
        app = Bouncer()
        wire = Wire(app)
        wire.receives(request_bytes)
        await wire.done()
        assert (len(bodies(wire)), app.asked) == (1, [])
        wire.client_leaves()

    run(scenario())


def test_answers_do_not_pile_up_for_a_client_that_does_not_read_them() -> None:
    async def scenario() -> None:
        wire = Wire(Bouncer())
        wire.protocol.pause_writing()
        for _ in range(3):
            wire.receives(FULL % (2, b"hi"))
        await settle()
        assert wire.sent == b""
        wire.protocol.resume_writing()
        await wire.done()
        assert bodies(wire) == [b"late", b"full", b"full"]
        wire.client_leaves()

    run(scenario())


@pytest.mark.parametrize("behind", [[GET % 2] * 9, [POST % (70_000, b"x" * 70_000)]])
def test_what_may_wait_behind_a_request_is_bounded(behind: list[bytes]) -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        await settle()
        for request in behind:
            wire.receives(request)
        wire.receives(GET % 99)
        await settle()
        assert wire.transport.reads  # else it would not be seen that the client leaves
        app.go()
        await wire.done()
        assert [scope["raw_path"] for scope in wire.calls] == [b"/1"]
        assert bodies(wire) == [b"/1"]
        assert b"connection: close" in wire.sent
        assert wire.ended == ["close"]

    run(scenario())


def test_nonsense_behind_a_request_is_never_answered_in_its_middle() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        wire.receives(b"\x16\x03\x01 nonsense\r\n\r\n")
        await settle()
        assert wire.sent == b""
        app.go()
        await wire.done()
        assert bodies(wire) == [b"/1"]
        assert wire.ended == ["close"]

    run(scenario())


def test_nonsense_behind_requests_that_wait_ends_the_connection_after_the_running_one() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1 + GET % 2 + b"nonsense\r\n\r\n")
        await settle()
        app.go()
        await wire.done()
        assert bodies(wire) == [b"/1"]
        assert wire.ended == ["close"]

    run(scenario())


# Requests that cannot be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xe4 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n folded\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_http_is_an_openai_error(request_bytes: bytes) -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(request_bytes)
        await settle()
        status, error = refusal(wire)
        assert (status, error["type"], error["code"]) == (
            400,
            "invalid_request_error",
            "bad_request",
        )
        assert wire.calls == []
        await wire.done()

    run(scenario())


def test_a_body_that_cannot_be_read_ends_its_request_as_refused() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        await settle()
        connection = wire.connection
        assert connection.refusal is None
        wire.receives(b"zz\r\n")
        assert refusal(wire)[0] == 400
        assert connection.refusal == ConnectionRefusal(400, "bad_request")
        await wire.done()

    run(scenario())


@pytest.mark.parametrize("piece_bytes", [1000, 50_000, 200_000])
def test_a_head_that_is_too_large_is_refused_however_it_comes(piece_bytes: int) -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        head = b"GET / HTTP/1.1\r\nx: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n"
        for start in range(0, len(head), piece_bytes):
            wire.receives(head[start : start + piece_bytes])
        await settle()
        assert refusal(wire)[0] == 431
        assert wire.calls == []

    run(scenario())


def test_heads_are_measured_one_by_one() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        head = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 40_000 + b"\r\n\r\n"
        for _ in range(5):
            wire.receives(head[:39_000])
            wire.receives(head[39_000:])
            await wire.done()
        assert len(wire.calls) == 5
        wire.client_leaves()

    run(scenario())


@pytest.mark.parametrize("end", [b"\r\n", b""], ids=["whole", "still coming"])
@pytest.mark.parametrize("piece_bytes", [500, 10_000])
def test_a_head_of_too_many_fields_is_refused_whatever_its_size(
    piece_bytes: int, end: bytes
) -> None:
    """Thirteen thousand fields in 64 KiB took a megabyte and a half."""

    async def scenario() -> None:
        wire = Wire(echo)
        head = b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * (MAX_FIELDS + 1) + end
        for start in range(0, len(head), piece_bytes):
            wire.receives(head[start : start + piece_bytes])
        await settle()
        assert refusal(wire)[0] == 431
        assert b"256 header fields" in wire.sent
        assert wire.calls == []

    run(scenario())


def test_a_head_that_is_refused_behind_a_running_request_is_not_kept() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        await settle()
        wire.receives(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * 10_000 + b"\r\n")
        assert wire.protocol.headers == []
        assert wire.calls[0]["headers"] == [(b"host", b"x")]
        app.go()
        await wire.done()
        assert bodies(wire) == [b"/1"]

    run(scenario())


def test_as_many_fields_as_may_be_are_served() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        fields = b"a:b\r\n" * (MAX_FIELDS - 1)
        wire.receives(b"GET / HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n")
        await wire.done()
        assert len(wire.calls) == 1

    run(scenario())


def test_a_large_target_is_as_bad_as_large_headers() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(b"GET /" + b"x" * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n")
        await settle()
        assert refusal(wire)[0] == 431

    run(scenario())


def test_a_body_does_not_count_as_head() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        body = b"x" * 2 * MAX_HEAD_BYTES
        wire.receives(POST % (len(body), body) + GET % 2)
        await wire.done()
        wire.receives(GET % 3)
        await wire.done()
        assert [scope["raw_path"] for scope in wire.calls] == [b"/", b"/2", b"/3"]
        wire.client_leaves()

    run(scenario())


# Clients that are slow -------------------------------------------------------------------------


def sweep(wire: Wire) -> None:
    wire.protocol.enforce_time_limits(now(), LIMITS)


async def sweep_for(wire: Wire, seconds: int) -> None:
    for _ in range(seconds):
        await asyncio.sleep(1)
        sweep(wire)


def test_a_head_that_does_not_come_in_time_is_refused() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(b"GET / HT")
        await sweep_for(wire, 29)
        assert wire.ended == []
        wire.receives(b"T")  # a byte now and then does not help
        await sweep_for(wire, 1)
        status, error = refusal(wire)
        assert (status, error["code"]) == (408, "body_timeout")

    run(scenario())


def test_a_client_that_never_says_a_word_is_hung_up_on_without_one() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        await sweep_for(wire, 30)
        assert (wire.sent, wire.ended) == (b"", ["close"])

    run(scenario())


def test_an_idle_connection_is_not_a_slow_request() -> None:
    async def scenario() -> None:
        wire = Wire(echo)
        wire.receives(GET % 1)
        await wire.done()
        await sweep_for(wire, 60)
        assert wire.ended == []
        wire.receives(GET % 2)
        await wire.done()
        assert bodies(wire) == [b"/1|", b"/2|"]
        wire.client_leaves()

    run(scenario())


def test_a_slow_body_is_the_apps_to_time() -> None:
    async def scenario() -> None:
        wire = Wire(Waiting())
        wire.receives(POST % (10, b"x"))
        await sweep_for(wire, 300)
        assert wire.ended == []
        wire.client_leaves()
        await wire.done()

    run(scenario())


def test_an_upload_that_goes_on_after_its_answer_ends_some_time() -> None:
    async def scenario() -> None:
        async def answers_early(_scope: Scope, _receive: Receive, send: Send) -> None:
            await answer(send)

        wire = Wire(answers_early)
        wire.receives(POST % (10, b"x"))
        await wire.done()
        await sweep_for(wire, 60)
        assert wire.ended == []
        await sweep_for(wire, 1)
        assert wire.ended == ["close"]

    run(scenario())


def test_a_request_that_takes_long_to_answer_is_not_slow() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        await sweep_for(wire, 500)
        assert wire.ended == []
        app.go()
        await wire.done()
        assert bodies(wire) == [b"/1"]
        wire.client_leaves()

    run(scenario())


def test_a_client_that_reads_nothing_for_long_is_dropped() -> None:
    async def scenario() -> None:
        wire = Wire(Waiting())
        wire.receives(GET % 1)
        await settle()
        wire.transport.unsent = 1000
        wire.protocol.pause_writing()
        await sweep_for(wire, 60)
        assert wire.ended == []
        await sweep_for(wire, 1)
        assert wire.ended == ["abort"]
        await wire.done()

    run(scenario())


def test_a_client_that_reads_slowly_is_not() -> None:
    async def scenario() -> None:
        wire = Wire(Waiting())
        wire.receives(GET % 1)
        await settle()
        wire.protocol.pause_writing()
        for unsent in range(1000, 900, -1):
            wire.transport.unsent = unsent
            await sweep_for(wire, 30)
        assert wire.ended == []
        wire.client_leaves()
        await wire.done()

    run(scenario())


def test_what_waits_while_more_may_be_written_is_no_sign_of_a_stuck_client() -> None:
    async def scenario() -> None:
        wire = Wire(Waiting())
        wire.receives(GET % 1)
        await settle()
        wire.transport.unsent = 1000  # below the mark at which the app is held back
        await sweep_for(wire, 300)
        assert wire.ended == []
        wire.client_leaves()
        await wire.done()

    run(scenario())


# What an app may do ----------------------------------------------------------------------------


def test_a_connection_can_be_closed_and_reset_by_the_app() -> None:
    async def scenario() -> None:
        app = Waiting()
        wire = Wire(app)
        wire.receives(GET % 1)
        await settle()
        assert not wire.connection.is_closing()
        wire.connection.close()
        assert wire.connection.is_closing()
        wire.connection.abort()
        assert wire.ended == ["close", "abort"]
        await wire.done()
        assert app.left == [b"/1"]

    run(scenario())


def test_a_body_can_end_with_its_connection() -> None:
    async def scenario() -> None:
        async def to_the_end(scope: Scope, _receive: Receive, send: Send) -> None:
            connection = client_connection(scope)
            assert connection is not None
            connection.end_body_by_closing()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"abc", "more_body": True})
            await send({"type": "http.response.body", "body": b"def", "more_body": False})

        wire = Wire(to_the_end)
        wire.receives(b"GET / HTTP/1.0\r\n\r\n")
        await wire.done()
        head, _, body = wire.sent.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert b"connection: close" in head
        assert (body, wire.ended) == (b"abcdef", ["close"])

    run(scenario())


def test_a_server_that_is_not_ours_has_no_such_connection() -> None:
    assert client_connection({}) is None
    assert client_connection({"extensions": {"other": {}}}) is None


def test_an_app_that_crashes_leaves_an_answer_or_a_broken_one() -> None:
    async def scenario() -> None:
        async def crashes(_scope: Scope, receive: Receive, send: Send) -> None:
            body = json.loads(await whole_body(receive))
            if body["starts"]:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            raise RuntimeError("of the app")

        for starts, status in [(b"true ", b"200"), (b"false", b"500")]:
            wire = Wire(crashes)
            wire.receives(POST % (17, b'{"starts": %b}' % starts))
            await wire.done()
            assert wire.sent.split()[1] == status
            assert not wire.sent.endswith(b"0\r\n\r\n")
            assert wire.ended == ["close"]

    run(scenario())


@pytest.mark.parametrize("path", [b"/full", b"/served"])
def test_a_connection_that_is_over_is_gone_without_the_collector(path: bytes) -> None:
    async def scenario() -> None:
        wire = Wire(Bouncer())
        wire.receives(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
        await wire.done()
        wire.client_leaves()
        await settle()
        for one in (wire.transport, wire):  # as a real transport lets go of its protocol
            vars(one).clear()

    with no_knots_of(SluiceProtocol, ResponseCycle, ClientConnection):
        run(scenario())
