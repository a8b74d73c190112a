"""Requests that two servers in a row may read differently, as bytes.

Behind each of REFUSED stands whole another request, which must never be found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BEHIND = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nx-client-id: behind\r\n\r\n"
IN_CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"

_CODINGS = [
    b"Transfer-Encoding: chunked\t", b"Transfer-Encoding: chunked,", b"Transfer-Encoding: ,chunked",
    b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding: chunked\x0b", b"Transfer-Encoding:",
    b'Transfer-Encoding: "chunked"', b"Transfer-Encoding: chunked;q=1",
    b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: gzip, chunked",
    b"X: y\rTransfer-Encoding: chunked", b"X: y\r\rTransfer-Encoding: chunked",
    b"X: y\nTransfer-Encoding: chunked", b"Transfer-Encoding\t: chunked",
    b" Transfer-Encoding: chunked", b"\x0bTransfer-Encoding: chunked",
    b"Transfer-Encoding: x\0chunked", b"Transfer-Encoding: \xffchunked",
    b"Transfer-Encoding: x\xa0chunked", b"Transfer-Encoding: xchunked", b"X y: z", b"X(: z",
]  # fmt: skip
_BOTH = [b"Transfer-Encoding: chunked", b"transfer-encoding: CHUNKED", b"Transfer-Encoding:chunked"]
_CHUNKS = [
    b"2;\r\n{}\r\n0\r\n\r\n", b"2 \r\n{}\r\n0\r\n\r\n", b" 2\r\n{}\r\n0\r\n\r\n",
    b"+2\r\n{}\r\n0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n", b"0_2\r\n{}\r\n0\r\n\r\n",
    b"-2\r\n{}\r\n0\r\n\r\n", b"2_\r\n{}\r\n0\r\n\r\n", b"\xb2\r\n{}\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\n", b"10000000000000002\r\n{}\r\n0\r\n\r\n", b"2\n{}\n0\n\n",
    b"2\r\n{}0\r\n\r\n", b"2\r\n{}\n0\r\n\r\n", b"2\r{}\r\n0\r\n\r\n", b"2\r\n{}\r0\r\n\r\n",
    b"2;a\nb\r\n{}\r\n0\r\n\r\n", b"2;a\rb\r\n{}\r\n0\r\n\r\n", b"2;a\0b\r\n{}\r\n0\r\n\r\n",
    b'2;a="\r\n"\r\n{}\r\n0\r\n\r\n', b"\r\n2\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\n",
    b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n", b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n",
    b"2\r\n{}\r\n\r\n\r\n", b"2\r\n{}\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n",
]  # fmt: skip
_LENGTHS = [
    b"+2", b"-2", b"2,2", b"2, 2", b"2\r\nContent-Length: 2", b"2\r\nContent-Length: 3", b"2.0",
    b"2e0", b"", b"0x2", b"\x0b2", b"2 2", b"18446744073709551618", b"\xb2", b"2\0", b"2_0", b"2;",
    b"\r\n 2", b"two", b"0\r\ncontent-length: 2",
]  # fmt: skip
_FIELDS = [
    b"X: a\rb", b"X: a\0b", b"X: a\nb", b"X\0: a", b"X\xff: a", b": a", b"X", b"X: \x7f",
    b"X: \x01", b"Host: y", b"X: a\r\n\tfolded", b"Content-Length : 2", b"Content-Length\n: 2",
]  # fmt: skip
_LINES = [
    b"GET /v1/models", b"GET /v1/models HTTP/0.9", b"GET /v1/models HTTP/2.0",
    b"GET /v1/models HTTP/1.2", b"GET /v1/models HTTP/1.10", b"GET /v1/models http/1.1",
    b"GET /v1/models HTTP/1.1 ", b"GET /v1/models HTTP/1.1\0", b"GET\t/v1/models\tHTTP/1.1",
    b"get /v1/models HTTP/1.1", b"BREW /v1/models HTTP/1.1", b"GET v1/models HTTP/1.1",
    b"GET /v1/models?a b HTTP/1.1", b"GET /v1/models\0 HTTP/1.1", b"GET /v1/models\r HTTP/1.1",
    b"GET /v1/mod\xe9ls HTTP/1.1", b"GET /v1/models?\xe9 HTTP/1.1", b"GET /v1/models?\t HTTP/1.1",
    b"GET /v1/models?\x0c HTTP/1.1", b"GET http:///v1/models HTTP/1.1", b" GET /v1/models HTTP/1.1",
    b"GET http://\xe9/v1/models HTTP/1.1", b"CONNECT evil.test:80 HTTP/1.1", b"PRI * HTTP/2.0",
    b"CONNECT /v1/models HTTP/1.1", b"GET evil.test/v1/models HTTP/1.1",
]  # fmt: skip


def _posts(fields: list[bytes], body: bytes = b"{}", *, more: bytes = b"") -> list[bytes]:
    return [HEAD + more + field + b"\r\n\r\n" + body for field in fields]


REFUSED: Mapping[str, list[bytes]] = {
    "codings": _posts(_CODINGS, IN_CHUNKS),
    "a length and a coding": _posts(_CODINGS + _BOTH, IN_CHUNKS, more=b"Content-Length: 2\r\n"),
    "a coding and a length": [
        HEAD + coding + b"\r\nContent-Length: 12\r\n\r\n" + IN_CHUNKS for coding in _CODINGS + _BOTH
    ],
    "chunks": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks for chunks in _CHUNKS],
    "lengths": _posts([b"Content-Length: " + length for length in _LENGTHS]),
    "fields": _posts(_FIELDS, more=b"Content-Length: 2\r\n"),
    "request lines": [line + b"\r\nHost: x\r\n\r\n" for line in _LINES],
    "no host": [b"GET /v1/models HTTP/1.1\r\n\r\n", b"GET http://x/v1/models HTTP/1.1\r\n\r\n"],
    "other protocols": [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3",
        b"\5\1\0", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    ],
}  # fmt: skip

# Bytes, and the method, target and body that the engine must see.
_COMPLETION = (b"POST", b"/v1/completions", b"{}")
_MODELS = (b"GET", b"/v1/models", b"")
_WITH_BODY = (b"GET", b"/v1/models", b"hello")
PASSED: Mapping[bytes, tuple[bytes, bytes, bytes]] = {
    **{
        HEAD + coding + b"\r\n\r\n" + IN_CHUNKS: _COMPLETION
        for coding in (*_BOTH, b"Transfer-Encoding:\tchunked", b"transfer-encoding:  Chunked")
    },
    **{
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks: _COMPLETION
        for chunks in (
            b"2;x=y\r\n{}\r\n0\r\n\r\n", b"02\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n00;x\r\n\r\n",
            b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        )
    },
    **{
        HEAD + b"Content-Length:" + length + b"\r\n\r\n{}": _COMPLETION
        for length in (b"2", b"  2", b" 2 ", b" 2\t", b" 02")
    },
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello": _WITH_BODY,
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\n\r\n": _WITH_BODY,
    **{
        line + b" HTTP/1.1\r\nHost: x\r\n\r\n": _MODELS
        for line in (
            b"GET http://evil.test/v1/models", b"GET http://u:p@evil.test:1/v1/models",
            b"GET ftp://evil.test/v1/models#f", b"GET  /v1/models", b"GET /v1/models ",
            b"\r\n\r\nGET /v1/models", b"\nGET /v1/models",
        )
    },
    b"GET /v1/models?A=%0D%0ax:y&b=http://evil/../? HTTP/1.1\r\nHost: x\r\n\r\n": (
        b"GET", b"/v1/models?A=%0D%0ax:y&b=http://evil/../?", b""
    ),
    b"GET /v1/models/org%2Fname HTTP/1.1\r\nHost: x\r\nX: \xff\r\n\r\n": (
        b"GET", b"/v1/models/org%2Fname", b""
    ),
}  # fmt: skip

# Served, and nothing is read behind them.
LAST: Mapping[bytes, tuple[bytes, bytes, bytes]] = {
    **{
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + trailers: _COMPLETION
        for trailers in (
            b"Host: y\r\nX-Trailer: z\r\n\r\n", b"Content-Type: text/plain\r\n\r\n",
            b"Connection: close\r\n\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            b"Expect: 100-continue\r\n\r\n",
        )
    },
    HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + IN_CHUNKS: _COMPLETION,
    b"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n": _MODELS,
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n": _MODELS,
    **{
        HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + rest: _COMPLETION
        for rest in (
            b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n" + IN_CHUNKS
        )
    },
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n": _MODELS,
}  # fmt: skip

# Answered by the gateway, which then reads on; nothing of them reaches the engine.
NOT_FORWARDED = [
    line + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    for line in (
        b"OPTIONS *", b"GET *", b"GET //evil.test/v1/models", b"GET /v1/models#x",
        b"GET /v1/models/../sleep", b"GET /v1/models/%2e%2e/sleep", b"GET /v1/models/..%2fsleep",
        b"GET /v1/models/..;/sleep", b"GET http://evil.test/v1/models/../sleep", b"GET /sleep",
        b"GET http://evil.test", b"QUERY /v1/models", b"GET /V1/models", b"GET /v1/models/",
        b"GET /v1//models", b"GET /v1/models;x", b"GET /v1%2fmodels", b"GET /v1/models%00",
        b"GET /v1/models/%5c..%5csleep", b"GET /v1/models/%252e%252e/sleep", b"GET /@evil.test/",
    )
]  # fmt: skip
