from __future__ import annotations

import math

import pytest

from proxy.upstream.response_head import (
    MAX_HEADERS,
    announced_bytes,
    head_size,
    is_close_delimited,
    violation_of_head,
)

LENGTH = (b"Content-Length", b"2")
CHUNKED = (b"transfer-encoding", b"Chunked")
OTHER = (b"x", b"y")


@pytest.mark.parametrize(
    "fields", [[], [OTHER], [LENGTH], [CHUNKED], [OTHER] * MAX_HEADERS, [(b"x" * 17, b"gzip")]]
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("status", [200, 204, 304, 404, 529, 599])
def test_a_sound_head_has_no_violation(
    version: str, status: int, fields: list[tuple[bytes, bytes]]
) -> None:
    assert violation_of_head(version, status, fields) is None


@pytest.mark.parametrize(
    ("version", "status", "fields", "said"),
    [
        ("2.0", 200, [], "HTTP/2.0"),
        ("0.9", 200, [], "HTTP/0.9"),
        ("1.1", 101, [], "status 101"),
        ("1.1", 99, [], "status 99"),
        ("1.1", 600, [], "status 600"),
        ("1.1", 999, [], "status 999"),
        ("1.1", 200, [OTHER] * (MAX_HEADERS + 1), "more than 256"),
        ("1.1", 200, [CHUNKED, LENGTH], "both"),
        ("1.1", 200, [CHUNKED, CHUNKED], "'chunked'"),
        ("1.1", 200, [(b"Transfer-Encoding", b"gzip")], "'chunked'"),
        ("1.1", 200, [(b"Transfer-Encoding", b"gzip, chunked")], "'chunked'"),
    ],
)
def test_a_violation_is_named(
    version: str, status: int, fields: list[tuple[bytes, bytes]], said: str
) -> None:
    violation = violation_of_head(version, status, fields)
    assert violation is not None
    assert said in violation


def test_a_head_is_as_large_as_its_fields() -> None:
    assert head_size([(b"abc", b"de"), (b"f", b"")]) == len(b"abc: de\r\nf: \r\n")


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        (200, [OTHER], True),
        (200, [LENGTH], False),
        (200, [CHUNKED], False),
        (204, [], False),
        (304, [], False),
    ],
)
def test_a_body_that_nothing_frames_ends_with_the_connection(
    status: int, fields: list[tuple[bytes, bytes]], expected: bool
) -> None:
    assert is_close_delimited(status, fields) is expected


@pytest.mark.parametrize(
    ("method", "status", "fields", "expected"),
    [
        ("GET", 200, [OTHER, (b"Content-Length", b"12")], 12),
        ("GET", 200, [(b"content-length", b"0")], 0),
        ("GET", 200, [(b"content-length", b"0" * 5000 + b"12")], 12),
        ("GET", 200, [CHUNKED], math.inf),
        ("GET", 200, [], math.inf),
        ("HEAD", 200, [(b"content-length", b"12")], 0),
        ("GET", 304, [(b"content-length", b"12")], 0),
        ("DELETE", 204, [], 0),
    ],
)
def test_a_body_is_as_long_as_the_head_announces(
    method: str, status: int, fields: list[tuple[bytes, bytes]], expected: float
) -> None:
    assert announced_bytes(method, status, fields) == expected
