"""The few fields of a request body that admission looks at; everything else stays unparsed."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NESTED_TOO_DEEPLY = "the request body is nested too deeply"

_ABSENT = Raw()
_CONSTANTS = (b"-Infinity", b"Infinity", b"NaN")
_NULL = b"null"
_BEFORE_A_VALUE = (b":", b",", b"[", b" ", b"\n", b"\t", b"\r")
# With no other bytes does anything that is replaced go on: an escape, or what comes before a
# constant, begins with one of these.
_BETWEEN_WORDS = re.compile(rb"[^uCdDNaInfity-]")
_PIECE_BYTES = 64 * 1024


class UnreadableBodyError(Exception):
    """The body cannot be read as a JSON object. The message says why in one line, and quotes
    nothing of the body."""


class RequestFields(msgspec.Struct):
    """Raw JSON of every field that some route reads; empty when absent.

    All are Raw, so that a wrong type never fails the decoding: judging is the engine's work.
    A repeated key counts as the engine reads it: the last one wins.
    """

    model: Raw = _ABSENT
    stream: Raw = _ABSENT
    background: Raw = _ABSENT
    n: Raw = _ABSENT
    best_of: Raw = _ABSENT
    max_tokens: Raw = _ABSENT
    max_completion_tokens: Raw = _ABSENT
    max_output_tokens: Raw = _ABSENT
    sampling_params: Raw = _ABSENT
    truncate_prompt_tokens: Raw = _ABSENT
    messages: Raw = _ABSENT
    prompt: Raw = _ABSENT
    prompt_embeds: Raw = _ABSENT
    token_ids: Raw = _ABSENT
    input: Raw = _ABSENT
    texts: Raw = _ABSENT
    images: Raw = _ABSENT
    inputs: Raw = _ABSENT
    query: Raw = _ABSENT
    queries: Raw = _ABSENT
    documents: Raw = _ABSENT
    items: Raw = _ABSENT
    data_1: Raw = _ABSENT
    data_2: Raw = _ABSENT
    text_1: Raw = _ABSENT
    text_2: Raw = _ABSENT
    state: Raw = _ABSENT
    questions: Raw = _ABSENT
    tools: Raw = _ABSENT
    system: Raw = _ABSENT
    instructions: Raw = _ABSENT


_decode = msgspec.json.Decoder(RequestFields).decode


def read_fields(body: bytes) -> RequestFields:
    """The fields of a body that holds one JSON object; raises UnreadableBodyError otherwise."""
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return _read_lax_fields(body)
    except RecursionError:
        raise UnreadableBodyError(NESTED_TOO_DEEPLY) from None


def read_strict_fields(body: bytes) -> RequestFields:
    """As read_fields, of nothing but what JSON is."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableBodyError("the request body is no plain JSON object") from None


def nested_fields(raw: Raw) -> RequestFields:
    """The same fields in an object inside the body; none of them when it is no object."""
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return RequestFields()


def _read_lax_fields(body: bytes) -> RequestFields:
    """Reads what Python's json, and so the engine, takes beyond JSON.

    The body is rewritten for this reading instead of being parsed by json: objects for all of it
    would take twenty times its size, and a faulty body must not cost more than a sound one.
    """
    if not body:
        raise UnreadableBodyError("the request body is empty")
    try:
        fields = _decode(_strict(body, [_NULL] * len(_CONSTANTS)))
        fields.model = _name_as_written(fields.model, body)
    except msgspec.ValidationError:
        raise UnreadableBodyError("the request body must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise UnreadableBodyError(f"the request body cannot be read: {error}") from None
    except RecursionError:
        raise UnreadableBodyError(NESTED_TOO_DEEPLY) from None
    return fields


def _name_as_written(name: Raw, body: bytes) -> Raw:
    """The model's name, of all strings the one that is looked at, without what _strict() changed
    in it. What may have been a constant is read again, with words that nobody can have written."""
    written = bytes(name)
    if not written.startswith(b'"'):
        return name
    if _NULL in written:
        words = [b"%d" % secrets.randbits(60) for _ in _CONSTANTS]
        written = bytes(_decode(_strict(body, words)).model)
        for word, constant in zip(words, _CONSTANTS, strict=True):
            written = written.replace(word, constant)
    return Raw(written.replace(b"\\uC", b"\\ud"))


def _strict(body: bytes, instead: Sequence[bytes]) -> bytes:
    """The body in UTF-8, with other words for the constants that are not JSON, and no surrogates.

    Plain replacements, that run at the speed of memory whatever is in the body, do: inside a
    string they change text that nobody looks at here, and never its end. A key cannot become one
    of ours: U+Dxxx turns into U+Cxxx, which is no ASCII letter, and no field is called "null".
    Most names are spared, as BAAI/Infinity-Instruct: a constant is one only where a value may
    begin. An escape that begins with a large C was a surrogate, for those that were not have a
    small one.
    """
    return b"".join([_strict_piece(piece, instead) for piece in _pieces(_in_utf8(body))])


def _pieces(body: bytes) -> Iterator[bytes]:
    """In none of them is a part of what is replaced: no call holds the interpreter for long."""
    start = 0
    while start < len(body):
        found = _BETWEEN_WORDS.search(body, start + _PIECE_BYTES)
        stop = found.start() if found else len(body)
        yield body[start:stop]
        start = stop


def _strict_piece(piece: bytes, instead: Sequence[bytes]) -> bytes:
    piece = piece.replace(b"\\uC", b"\\uc")
    piece = piece.replace(b"\\ud", b"\\uC").replace(b"\\uD", b"\\uC")
    for constant, word in zip(_CONSTANTS, instead, strict=True):
        if constant in piece:
            for before in _BEFORE_A_VALUE:
                piece = piece.replace(before + constant, before + word)
    return piece


def _in_utf8(body: bytes) -> bytes:
    encoding = json.detect_encoding(body)
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise UnreadableBodyError(
            f"the request body is not valid {encoding}: {error.reason} at byte {error.start}"
        ) from None
