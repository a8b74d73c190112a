from __future__ import annotations

import pytest

from proxy.upstream.header_rules import bearer, has_field, request_headers, response_headers

UPSTREAM_KEY = b"Bearer upstream-key"
CREDENTIALS = [(b"authorization", b"Bearer client-key"), (b"x-api-key", b"client-key")]


def to_engine(
    headers: list[tuple[bytes, bytes]],
    upstream_authorization: bytes | None = None,
    client_is_authenticated: bool = False,
) -> list[tuple[bytes, bytes]]:
    return request_headers(
        headers,
        authority=b"engine:8000",
        request_id=b"req-1",
        upstream_authorization=upstream_authorization,
        client_is_authenticated=client_is_authenticated,
    )


def to_client(headers: list[tuple[bytes, bytes]], status: int = 200) -> list[tuple[bytes, bytes]]:
    return response_headers(headers, request_id=b"req-1", status=status)


HOP_BY_HOP = [
    (b"Connection", b"keep-alive, X-Hop"),
    (b"x-hop", b"1"),
    (b"Keep-Alive", b"timeout=5"),
    (b"Proxy-Connection", b"keep-alive"),
    (b"TE", b"trailers"),
    (b"Trailer", b"x"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Upgrade", b"websocket"),
    (b"Proxy-Authorization", b"Basic x"),
    (b"Proxy-Authenticate", b"Basic"),
]


def test_what_belongs_to_one_connection_does_not_cross() -> None:
    assert to_engine(HOP_BY_HOP) == [(b"host", b"engine:8000"), (b"x-request-id", b"req-1")]
    assert to_client(HOP_BY_HOP) == [(b"x-request-id", b"req-1")]


def test_a_field_named_by_connection_goes_wherever_it_stands() -> None:
    fields = [
        (b"A", b"1"),
        (b"b", b"2"),
        (b"connection", b"a"),
        (b"Connection", b" B ,close"),
        (b"c", b"3"),
    ]
    assert to_client(fields) == [(b"c", b"3"), (b"x-request-id", b"req-1")]


def test_connection_cannot_take_away_what_is_ours() -> None:
    named = [(b"connection", b"host, x-request-id, authorization, content-length")]
    assert to_engine([*named, *CREDENTIALS[:1]], UPSTREAM_KEY) == [
        (b"host", b"engine:8000"),
        (b"authorization", UPSTREAM_KEY),
        (b"x-request-id", b"req-1"),
    ]


def test_the_framing_and_the_host_are_replaced_and_expect_is_dropped() -> None:
    fields = [
        (b"host", b"gateway"),
        (b"content-length", b"7"),
        (b"expect", b"100-continue"),
        (b"X-Request-Id", b"theirs"),
    ]
    assert to_engine(fields) == [(b"host", b"engine:8000"), (b"x-request-id", b"req-1")]


def test_everything_else_passes_in_order_and_as_often_as_it_came() -> None:
    fields = [
        (b"Accept-Encoding", b"br;q=1.0, *;q=0"),
        (b"x-twice", b"a"),
        (b"OpenAI-Organization", b"org"),
        (b"x-twice", b"b"),
        (b"content-type", b'multipart/form-data; boundary="a b"'),
        (b"traceparent", b"00-1-2-01"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-empty", b""),
    ]
    assert to_engine(fields)[1:-1] == fields
    assert to_client(fields)[:-1] == fields


def test_nothing_is_invented() -> None:
    assert [name for name, _ in to_engine([])] == [b"host", b"x-request-id"]
    assert [name for name, _ in to_client([])] == [b"x-request-id"]


def credentials_at_the_engine(
    upstream_authorization: bytes | None, client_is_authenticated: bool
) -> list[tuple[bytes, bytes]]:
    fields = to_engine(
        [*CREDENTIALS, *CREDENTIALS], upstream_authorization, client_is_authenticated
    )
    return [field for field in fields if field[0] in {b"authorization", b"x-api-key"}]


def test_credentials_pass_when_neither_side_has_a_key() -> None:
    assert credentials_at_the_engine(None, False) == [*CREDENTIALS, *CREDENTIALS]


def test_the_upstream_key_replaces_every_authorization_of_the_client() -> None:
    assert credentials_at_the_engine(UPSTREAM_KEY, False) == [
        CREDENTIALS[1],
        CREDENTIALS[1],
        (b"authorization", UPSTREAM_KEY),
    ]


def test_our_own_client_key_never_reaches_the_engine() -> None:
    assert credentials_at_the_engine(None, True) == []
    assert credentials_at_the_engine(UPSTREAM_KEY, True) == [(b"authorization", UPSTREAM_KEY)]


def test_the_names_of_credentials_are_known_in_any_case() -> None:
    shouted = [(b"AUTHORIZATION", b"Bearer client-key"), (b"X-Api-Key", b"client-key")]
    assert to_engine(shouted, None, True) == [
        (b"host", b"engine:8000"),
        (b"x-request-id", b"req-1"),
    ]


@pytest.mark.parametrize(("key", "value"), [("k", b"Bearer k"), ("", None), (None, None)])
def test_an_empty_key_is_no_key(key: str | None, value: bytes | None) -> None:
    assert bearer(key) == value


def test_a_length_stays_where_it_frames_the_body() -> None:
    length = (b"Content-Length", b"5")
    assert length in to_client([length])
    assert length not in to_client([length], status=204)
    assert length not in to_client([length], status=304)
    assert length not in to_client([length, (b"Transfer-Encoding", b"chunked")])


def test_a_request_id_of_the_engine_gives_way_to_ours() -> None:
    assert to_client([(b"X-REQUEST-ID", b"engine's")]) == [(b"x-request-id", b"req-1")]


def test_a_field_is_found_in_any_case() -> None:
    fields = [(b"ETag", b"x"), (b"Transfer-Encoding", b"chunked")]
    assert has_field(fields, b"transfer-encoding")
    assert not has_field(fields, b"transfer-encodinx")
