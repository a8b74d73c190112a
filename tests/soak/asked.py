"""What the clients send, sensible and not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.engine_process import MODEL
from tests.support.raw_client import request_bytes

if TYPE_CHECKING:
    import random

# By the names that routes have on the metrics page.
ROUTES = frozenset({"chat_completions", "completions", "rerank"})
_WORDS = (
    "the",
    "river",
    "bends",
    "where",
    "light",
    "falls",
    "on",
    "quiet",
    "stone",
    "and",
    "birds",
)
# More than the kernel keeps for who does not read (2.2 MB on loopback): 6 bytes as JSON each, and
# a fifth of a token.
_UNREAD_CHARACTERS = 600_000
_PADDING = 40_000


def request(rng: random.Random, *, stream: bool) -> bytes:
    """Ten to forty tokens, now and then a long prompt. One sequence each: then seats taken are
    requests that run, and the sum of where all requests are can be checked."""
    fields: dict[str, object] = {
        "model": MODEL,
        "stream": stream,
        "max_tokens": rng.randint(10, 40),
        "ignore_eos": True,
    }
    words = " ".join(rng.choices(_WORDS, k=400 if rng.random() < 0.05 else 12))
    if rng.random() < 0.3:
        return request_bytes("/v1/completions", {**fields, "prompt": words})
    messages = [{"role": "user", "content": words}]
    return request_bytes("/v1/chat/completions", {**fields, "messages": messages})


def padded(rng: random.Random) -> bytes:
    """A body that takes several reads. The engine does not count what it does not know."""
    body = {
        "model": MODEL,
        "max_tokens": rng.randint(5, 20),
        "prompt": "the river",
        "user": "x" * _PADDING,
    }
    return request_bytes("/v1/completions", body)


def large_answer() -> bytes:
    """Its answer has the document in it."""
    body = {"model": MODEL, "query": "river", "documents": ["\x01" * _UNREAD_CHARACTERS]}
    return request_bytes("/v1/rerank", body)


def garbage(rng: random.Random) -> bytes:
    """Something of which a server can make no request, or only the beginning of one."""
    whole = request(rng, stream=True)
    head, _, body = whole.partition(b"\r\n\r\n")
    line, _, fields = head.partition(b"\r\n")
    no_length = b"\r\n".join(
        one for one in fields.split(b"\r\n") if not one.lower().startswith(b"content-length")
    )
    chunked = line + b"\r\n" + no_length + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    return rng.choice(
        [
            rng.randbytes(rng.randint(1, 2_000)),
            b"\x16\x03\x01" + rng.randbytes(200),
            chunked + b"nonsense\r\n" + body,
            chunked + b"5\r\nhello!!!\r\n0\r\n\r\n",
            line + b"\r\nContent-Length: 3\r\nContent-Length: 4\r\n" + no_length + b"\r\n\r\nabcd",
            line + b"\r\nX-Long: " + b"a" * 80_000,
            head + b"\r\n\r\n" + b"{" * len(body),
            b"BREW /v1/chat/completions HTTP/1.1\r\nHost: soak\r\n\r\n",
            b"GET /v1/nowhere HTTP/1.1\r\nHost: soak\r\n\r\n",
            whole + rng.randbytes(100),
            json.dumps({"not": "http"}).encode() + b"\r\n\r\n",
        ]
    )
