"""How a prompt begins, by which requests are told that would find each other's prefix cached."""

from __future__ import annotations

import re

import msgspec

# Read with a pattern, not with a parser: a name that stands inside of a text gives another
# beginning, which is as good as any as long as it is always the same.
_PROMPT = re.compile(rb'"(?:messages|prompt|input|system|instructions|token_ids|texts)"\s*:\s*')
# Of a long body that has none, the search would cost more than it tells.
_SEARCHED_BYTES = 64 * 1024
# Parsing a conversation that is longer than this would hold up the event loop for a millisecond.
_PARSED_BYTES = 256 * 1024


class _Conversation(msgspec.Struct):
    messages: list[msgspec.Raw]


class _Message(msgspec.Struct):
    role: str = ""


_conversation = msgspec.json.Decoder(_Conversation).decode
_message = msgspec.json.Decoder(_Message).decode


def prompt_beginning(body: bytes, most: int) -> bytes:
    """At most `most` bytes of JSON.

    Of a conversation what stands before the model's first answer, which is the same at every turn
    of it. Of any other prompt its first bytes, and of a body without one those of the body.
    """
    if len(body) <= _PARSED_BYTES:
        opening = _opening(body)
        if opening:
            return opening[:most]
    found = _PROMPT.search(body, 0, _SEARCHED_BYTES)
    start = found.end() if found else 0
    return body[start : start + most]


def _opening(body: bytes) -> bytes:
    try:
        messages = _conversation(body).messages
        opening = []
        for message in messages:
            if _message(message).role not in ("system", "developer", "user"):
                break
            opening.append(bytes(message))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return b""
    return b",".join(opening)
