"""Request smuggling and tricks with paths, on raw sockets; and that what was judged is what the
engine sees: one request for each, framed once, read alike by both of uvicorn's parsers.

Field cases R44, R120, R121.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import engine_reading
from tests.fuzz.engine_reading import Completion
from tests.fuzz.fuzzing import cut, examples, places
from tests.support.engine_parsers import ReadRequest, read_by_h11, read_by_httptools
from tests.support.smuggling_cases import BEHIND, HEAD, LAST, NOT_FORWARDED, PASSED, REFUSED
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.raw_client import RawAnswer, RawClient
    from tests.support.request_reader import SeenRequest

ANSWER_WITHIN_S = 5.0


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=4, max_queue_depth=64, queue_timeout=5) as stand:
        yield stand


@dataclass
class Told:
    """What came back on one connection, and whether it was closed behind it."""

    answers: list[RawAnswer]
    closed: bool

    @property
    def statuses(self) -> list[int]:
        return [answer.status for answer in self.answers]


async def tell(stand: Stand, pieces: Iterable[bytes], answers: int) -> Told:
    """Sends, and reads so many answers, or those that come before the connection ends."""
    async with await stand.client() as client, asyncio.timeout(ANSWER_WITHIN_S):
        for piece in pieces:
            client.send(piece)
            await asyncio.sleep(0)
        got: list[RawAnswer] = []
        try:
            while len(got) < answers:
                got.append(await client.answer())
        except (asyncio.IncompleteReadError, ConnectionError):
            return Told(got, closed=True)
        return Told(got, closed=await _is_closed(client))


async def _is_closed(client: RawClient) -> bool:
    """Whether it is closed by now, or says that it will be."""
    if client.answers[-1].header("connection") == "close":
        return (await client.rest())[0] == b""
    return client.reader.at_eof()


def as_the_engine_reads(seen: SeenRequest) -> ReadRequest:
    """By both parsers, of which one will be the engine's: they must find one request, the same."""
    (by_h11,), (by_httptools,) = read_by_h11(seen.raw), read_by_httptools(seen.raw)
    assert by_h11 == by_httptools
    framings = by_h11.values(b"content-length") + by_h11.values(b"transfer-encoding")
    assert framings in ([], [b"%d" % len(by_h11.body)])
    assert len(by_h11.values(b"host")) == 1
    return by_h11


# What can be read in two ways -------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(REFUSED))
@on_the_stand
async def test_what_can_be_read_in_two_ways_is_refused_and_nothing_is_read_behind_it(
    stand: Stand, kind: str
) -> None:
    requests = REFUSED[kind]
    all_told = await asyncio.gather(*(tell(stand, [r + BEHIND], 2) for r in requests))
    for request, told in zip(requests, all_told, strict=True):
        assert told.closed, request
        (answer,) = told.answers
        assert answer.status in (400, 405), request  # 405 for CONNECT
        assert answer.error["type"] == "invalid_request_error", request
    assert stand.upstream.seen == []


@on_the_stand
async def test_what_can_be_read_in_one_way_is_one_request_whatever_its_form(stand: Stand) -> None:
    for request, meant in PASSED.items():
        stand.upstream.seen.clear()
        told = await tell(stand, [request + BEHIND], 2)
        assert (told.statuses, told.closed) == ([200, 200], False), request
        first, behind = map(as_the_engine_reads, stand.upstream.seen)
        assert (first.method, first.target, first.body) == meant, request
        assert behind.values(b"x-client-id") == [b"behind"]
        assert first.values(b"x-trailer") == []
    assert stand.upstream.pipelined == 0


@on_the_stand
async def test_nothing_is_read_behind_a_request_that_is_the_last(stand: Stand) -> None:
    for request, meant in LAST.items():
        for behind in (BEHIND, HEAD + b"Content-Length: 8\r\n\r\nSMUGGLED"):
            stand.upstream.seen.clear()
            told = await tell(stand, [request + behind], 2)
            assert (told.statuses, told.closed) == ([200], True), request
            (read,) = map(as_the_engine_reads, stand.upstream.seen)
            assert (read.method, read.target, read.body) == meant, request


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
AROUND = {
    "trailers": CHUNKED + b"2\r\n{}\r\n0\r\n" + b"X: %b\r\n" % (b"y" * 995) * 200 + b"\r\n",
    "an extension": CHUNKED + b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    "extensions": CHUNKED + (b"1;%b\r\n \r\n" % (b"x" * 995)) * 100 + b"2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", list(AROUND))
@on_the_stand
async def test_what_is_around_a_chunked_body_is_bounded(stand: Stand, kind: str) -> None:
    """In all, however it comes: in one write, and with data in between."""
    request = AROUND[kind]
    for pieces in ([request], [request[at : at + 4_000] for at in range(0, len(request), 4_000)]):
        told = await tell(stand, pieces, 1)
        # Of one who sends on, a reset may overtake the answer.
        assert told.statuses in ([431], [])
        assert told.closed
    assert stand.upstream.seen == []


@on_the_stand
async def test_a_target_that_is_not_on_the_list_reaches_nobody(stand: Stand) -> None:
    """R120, R121"""
    for request in NOT_FORWARDED:
        told = await tell(stand, [request + BEHIND], 2)
        assert told.statuses[0] in (404, 405), request
        assert told.statuses[1:] == [200], request
    assert {seen.client_id for seen in stand.upstream.seen} == {"behind"}


# Bodies that are not what they seem --------------------------------------------------------------

WIDE = b'{"prompt": "a", "n": 3, "max_tokens": 5}'
BOUNDARY = b'--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n3\r\n--b--\r\n'
# Content-Type, further fields, body.
DISGUISES = [
    (b"application/json", b"", WIDE.decode().encode("utf-16")),
    (b"application/json; charset=utf-16", b"", WIDE),
    (b"application/json; charset=utf-16", b"", WIDE.decode().encode("utf-16-le")),
    (b"application/json; charset=utf-7", b"", WIDE),
    (b"application/json\xa0", b"", WIDE),
    (b"application/json\x85;x", b"", WIDE),
    (b"APPLICATION/JSON", b"", b"\xef\xbb\xbf" + WIDE),
    (b"application/vnd.api+json", b"", WIDE),
    (b"text/plain", b"Connection: Content-Type\r\n", WIDE),
    (b"application/json", b"Connection: content-type, close\r\n", WIDE),
    (b"application/json", b"Content-Encoding: gzip\r\n", WIDE),
    (b"application/json", b"Content-Encoding: gzip\r\n", gzip.compress(WIDE)),
    (b"multipart/form-data; boundary=b", b"", BOUNDARY),
    (b"application/x-www-form-urlencoded", b"", b"n=3"),
    (b"application/json, text/plain", b"", WIDE),
    (b"application/json", b"Expect: 100-continue\r\n", WIDE),
    (b"application/json", b"", b'{"n": 1, "n": 3, "prompt": "a"}'),
    (b"application/json", b"", b'{"\\u006e": 3, "prompt": "a"}'),
    (b"application/json", b"", b'{"prompt": "a", "n": 3.' + b"0" * 5000 + b"}"),
    (b"application/json", b"", b'{"prompt": "\\ud800", "n": "3", "x": NaN}'),
]


async def judged_seats(stand: Stand, seen: SeenRequest) -> int:
    """As the access log has it, in which each request has a line."""
    request_id = (seen.header(b"x-request-id") or b"").decode()
    async with asyncio.timeout(ANSWER_WITHIN_S):
        while True:
            for line in reversed(stand.sluice.log):
                if request_id in line:
                    return int(json.loads(line)["seats"])
            await asyncio.sleep(0.005)


async def assert_was_judged_as_it_is_read(stand: Stand, seen: SeenRequest, sent: bytes) -> None:
    read = as_the_engine_reads(seen)
    assert read.body == sent
    content_type = b"".join(read.values(b"content-type"))
    runs = engine_reading.read(Completion, content_type, read.body)
    if runs is not None:
        assert await judged_seats(stand, seen) >= engine_reading.seats(runs)


@on_the_stand
async def test_a_body_in_disguise_is_judged_as_the_engine_reads_it(stand: Stand) -> None:
    """Or refused; in no case does the engine run what was not counted."""
    for content_type, fields, body in DISGUISES:
        stand.upstream.seen.clear()
        head = HEAD.replace(b"application/json", content_type) + fields
        request = head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        told = await tell(stand, [request], 1)
        is_accepted = engine_reading.read(Completion, content_type, body) is not None
        assert told.statuses == [200] or (told.statuses == [400] and not is_accepted), request
        assert len(stand.upstream.seen) == (told.statuses == [200])
        for seen in stand.upstream.seen:
            await assert_was_judged_as_it_is_read(stand, seen, body)


@on_the_stand
async def test_the_type_that_was_judged_is_the_type_that_the_engine_gets(stand: Stand) -> None:
    """A client cannot have it taken away on the way by naming it in Connection."""
    head = HEAD.replace(b"application/json", b"text/plain") + b"Connection: Content-Type\r\n"
    await tell(stand, [head + b"Content-Length: %d\r\n\r\n%b" % (len(WIDE), WIDE)], 1)
    (seen,) = stand.upstream.seen
    assert seen.values(b"content-type") == [b"text/plain"]
    assert seen.values(b"connection") == []


# Whatever is sent, in whatever pieces ------------------------------------------------------------

_names = st.sampled_from([b"X-A", b"Content-Type", b"Connection", b"Expect", b"TE", b"Trailer"])
_values = st.sampled_from([b"x", b"close", b"X-A", b"keep-alive, TE", b"100-continue", b"\xff \t"])
_types = st.sampled_from([b"application/json", b"text/plain", b"application/json;charset=utf-16"])
_bodies = st.sampled_from([b"", b"{}", WIDE, WIDE.decode().encode("utf-16"), b"{", b"\r\n\r\n"])


def _framed(body: bytes, at: list[int], chunked: bool) -> bytes:
    if not chunked:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    chunks = [b"%X;a=b\r\n%b\r\n" % (len(piece), piece) for piece in cut(body, at)]
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\nx-trailer: 1\r\n\r\n"


class Sent(NamedTuple):
    wire: bytes
    body: bytes


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    body = draw(_bodies)
    fields = draw(st.lists(st.tuples(_names, _values), max_size=2))
    lines = b"".join(b"%b: %b\r\n" % field for field in fields)
    head = HEAD.replace(b"application/json", draw(_types)) + lines
    return Sent(head + _framed(body, draw(places), draw(st.booleans())), body)


@given(st.lists(requests(), min_size=1, max_size=3), places)
@examples(40)
def test_whatever_passes_is_one_request_and_was_judged_as_it_is_read(
    stand: Stand, sent: list[Sent], where: list[int]
) -> None:
    """Several behind one another on a connection, cut anywhere: each is answered in its turn or the
    connection ends, and those that reach the engine are those that were sent, in their order."""

    async def scenario() -> None:
        stand.upstream.forget()
        wire = b"".join(request.wire for request in sent)
        told = await tell(stand, cut(wire, where), len(sent))
        assert told.closed or len(told.answers) == len(sent)
        assert all(answer.status in (200, 400) for answer in told.answers)
        answered = told.statuses.count(200)
        seen = stand.upstream.seen
        # What comes behind the last one on a connection may still be on its way when the connection
        # is closed: then a reset may overtake answers.
        assert len(seen) >= answered if told.closed else len(seen) == answered
        rest = iter(sent)
        for one in seen:
            body = as_the_engine_reads(one).body
            assert any(request.body == body for request in rest), "not sent, or not in its turn"
            await assert_was_judged_as_it_is_read(stand, one, body)
        assert stand.upstream.pipelined == 0

    if stand._open is None:
        on_the_stand(_begin)(stand)
    stand.runner.run(scenario())


async def _begin(stand: Stand) -> None:
    """So that examples need no capacity probe each."""
    assert stand.sluice.port
