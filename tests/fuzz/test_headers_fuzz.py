"""Header fields across the gateway, and what is read from them: no field is invented, none brings a
line of its own, nothing of one connection reaches the other."""

from __future__ import annotations

import contextlib
import math
import random

import h11
import httptools
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.edge.request_headers import BadHeaderError, HeaderReader, RequestHeaders
from proxy.telemetry.trace_context import Tracing
from proxy.upstream.header_rules import request_headers, response_headers
from proxy.upstream.port import UpstreamRequest
from proxy.upstream.request_sender import encode_head
from tests.fuzz.fuzzing import assert_is_one_line, examples, mostly

HOP_BY_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
}  # fmt: skip
OURS = {b"host", b"content-length", b"expect", b"x-request-id", b"authorization", b"x-api-key"}
NAMES = sorted(
    HOP_BY_HOP | OURS | {b"content-type", b"x-hop", b"accept", b"x-stainless-retry-count",
    b"x-stainless-timeout", b"x-stainless-read-timeout", b"x-sluice-queue-timeout",
    b"x-sluice-priority", b"tenant", b"session", b"traceparent", b"access-control-request-method"}
)  # fmt: skip
_token = st.text("abcxyzXYZ!#$%&'*+.^_`|~-09", min_size=1, max_size=8).map(str.encode)
_cases = st.sampled_from([bytes.lower, bytes.upper, bytes.title])
names = st.one_of(st.builds(lambda c, n: c(n), _cases, st.sampled_from(NAMES)), _token)
_words = st.one_of(
    st.sampled_from([*NAMES, b",", b", ", b" ,\t", b"close", b";q=1", b"chunked", b"100-continue"]),
    st.sampled_from([b"0", b"1", b"-1", b"1e9", b"nan", b"inf", b"1_0", b"\xd9\xa1", b"+3", b".5"]),
    st.sampled_from([b"high", b"LOW", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01", b"9" * 400]),
)
values = st.one_of(_words, mostly(_words, 5)).filter(lambda v: not set(v) & set(b"\r\n\0"))
_breaks = st.sampled_from([b"\r\n", b"\n", b"\r", b"\0"])
_broken_once = st.builds(lambda before, at, behind: before + at + behind, _words, _breaks, _words)
any_values = st.one_of(_words, _broken_once, mostly(st.one_of(_words, _breaks), 3))
# What is read as a number, and numbers: a name and a value by chance hardly ever are such a pair.
_hints = st.tuples(
    st.sampled_from([b"x-stainless-retry-count", b"x-stainless-timeout", b"content-length"])
    | st.sampled_from([b"x-stainless-read-timeout", b"x-sluice-queue-timeout"]),
    st.sampled_from([b"0", b"7", b"9999", b"10000", b"9" * 5000, b"0" * 99 + b"1", b"-1", b"+3"])
    | st.sampled_from([b"1e9", b"1e999", b"nan", b"inf", b"1_0", b".5", b"\xb2", b"", b" 1"]),
)
fields = st.lists(st.one_of(st.tuples(names, values), _hints), max_size=8)
lower_fields = fields.map(lambda pairs: [(name.lower(), value) for name, value in pairs])


def named_by_connection(pairs: list[tuple[bytes, bytes]]) -> set[bytes]:
    lists = [value.lower().split(b",") for name, value in pairs if name.lower() == b"connection"]
    return {option.strip() for options in lists for option in options} - {b"content-type"}


def is_subsequence(part: list[tuple[bytes, bytes]], whole: list[tuple[bytes, bytes]]) -> bool:
    rest = iter(whole)
    return all(pair in rest for pair in part)


@example([(b"connection", b"Content-Type"), (b"content-type", b"text/plain")], None, False)
@given(lower_fields, st.sampled_from([None, b"Bearer up"]), st.booleans())
@examples(150)
def test_what_crosses_to_the_engine(
    pairs: list[tuple[bytes, bytes]], key: bytes | None, authenticated: bool
) -> None:
    passed = request_headers(
        pairs,
        authority=b"engine",
        request_id=b"id-1",
        upstream_authorization=key,
        client_is_authenticated=authenticated,
    )
    own = [(b"host", b"engine"), (b"x-request-id", b"id-1")]
    own += [] if key is None else [(b"authorization", key)]
    gone = HOP_BY_HOP | named_by_connection(pairs)
    theirs = [pair for pair in passed if pair not in own]
    assert all(passed.count(pair) >= 1 for pair in own)
    assert is_subsequence(theirs, pairs)
    assert not {name for name, _ in theirs} & (gone | {b"host", b"content-length", b"expect"})
    if authenticated or key is not None:
        assert [pair for pair in theirs if pair[0] == b"authorization"] == []
    kept = [pair for pair in pairs if pair[0] not in gone | OURS]
    assert [pair for pair in theirs if pair[0] not in OURS] == [p for p in kept if p not in own]
    assert [v for n, v in passed if n == b"content-type"] == [
        v for n, v in pairs if n == b"content-type"
    ]


@given(fields, st.sampled_from([200, 204, 304, 404, 503]))
@examples(150)
def test_what_crosses_to_the_client(pairs: list[tuple[bytes, bytes]], status: int) -> None:
    passed = response_headers(pairs, request_id=b"id-1", status=status)
    names = [name.lower() for name, _ in passed]
    assert not set(names) & HOP_BY_HOP
    assert is_subsequence(passed[:-1], pairs)
    assert passed[-1] == (b"x-request-id", b"id-1")
    assert names.count(b"x-request-id") == 1
    if status in (204, 304) or any(name.lower() == b"transfer-encoding" for name, _ in pairs):
        assert b"content-length" not in names
    again = response_headers(passed, request_id=b"id-1", status=status)
    assert again == passed


class _Heard:
    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.messages = 0

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_message_complete(self) -> None:
        self.messages += 1


# Mostly a request line that passes, for else nobody looks at the fields.
@given(
    st.sampled_from(["GET", "POST", "DELETE", "POST", "G T", "POST\r\n", ""]),
    st.sampled_from([b"/v1/models", b"/v1/models?a=b", b"/%0d%0a"])
    | mostly(
        st.sampled_from([b"/v1/models", b"?a=b", b"%0d%0a", b" ", b"\t", b"\r\n", b"\xff", b"#"])
    ),
    st.lists(st.tuples(st.one_of(names, any_values), any_values), max_size=5),
    st.binary(max_size=8),
)
@examples(200)
def test_a_head_that_is_sent_is_one_head_to_whoever_reads_it(
    method: str, target: bytes, pairs: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """The last line of defence: whatever came so far is one request, or is not sent."""
    passed = request_headers(
        [(n.lower(), v) for n, v in pairs], authority=b"engine", request_id=b"i"
    )
    try:
        head = encode_head(UpstreamRequest(method, target, passed, body))
    except ValueError:
        return
    lines = head.split(b"\r\n")
    assert len(lines) == 3 + len(passed) + (bool(body) or method == "POST")
    assert not set(b"".join(lines)) & set(b"\r\n\0")
    heard = _Heard()
    parser = httptools.HttpRequestParser(heard)
    with contextlib.suppress(httptools.HttpParserError):  # a name that is none, for one
        parser.feed_data(head + body)
        assert heard.messages == 1
        assert heard.target == target
        assert [v for n, v in heard.fields if n == b"content-length"] == (
            [b"%d" % len(body)] if body or method == "POST" else []
        )
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(head + body)
    with contextlib.suppress(h11.RemoteProtocolError):
        request = connection.next_event()
        assert isinstance(request, h11.Request)
        assert request.target == target
        data = b""
        while isinstance(event := connection.next_event(), h11.Data):
            data += event.data
        assert isinstance(event, h11.EndOfMessage)
        assert (data, connection.trailing_data) == (body, (b"", False))


def read_headers(pairs: list[tuple[bytes, bytes]]) -> RequestHeaders:
    reader = HeaderReader(tenant_header="tenant", session_header="session")
    try:
        return reader.read(pairs)
    except BadHeaderError as error:
        assert_is_one_line(error)
        return error.headers


@given(lower_fields)
@examples(200)
def test_what_is_read_from_a_head_is_sane(pairs: list[tuple[bytes, bytes]]) -> None:
    """Retry counts, times, priorities: hints of a client never break anything."""
    found = read_headers(pairs)
    assert found.request_id
    assert len(found.request_id) <= 128
    assert found.request_id.decode("ascii").isprintable()
    assert 0 <= found.attempt <= 9999
    for seconds in (found.queue_timeout_s, found.client_timeout_s):
        assert seconds is None or math.isfinite(seconds)
    assert found.client_timeout_s is None or found.client_timeout_s > 0
    assert len(found.tenant) <= 128
    assert found.content_length is None or found.content_length >= 0


@given(lower_fields)
@examples(60)
def test_a_trace_context_is_read_or_begun_and_passed_on_once(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    passed = Tracing(1.0, random.Random(0)).begin(pairs).passed_on(pairs)
    assert [name for name, _ in passed].count(b"traceparent") == 1
