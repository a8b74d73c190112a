"""The few fields of a request body that admission looks at; everything else stays unparsed."""

from __future__ import annotations

import json
import math

import msgspec
from msgspec import Raw

_ABSENT = Raw()


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
    n: Raw = _ABSENT
    best_of: Raw = _ABSENT
    max_tokens: Raw = _ABSENT
    max_completion_tokens: Raw = _ABSENT
    max_output_tokens: Raw = _ABSENT
    sampling_params: Raw = _ABSENT
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


_decode = msgspec.json.Decoder(RequestFields).decode


def read_fields(body: bytes) -> RequestFields:
    """The fields of a body that holds one JSON object; raises UnreadableBodyError otherwise."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError):
        # The engine reads with Python's json, which takes more than JSON: NaN, lone surrogates,
        # a byte order mark, UTF-16. What it can read is rewritten in strict JSON and counted.
        return _decode(_strict_json(_lax_object(body)))


def nested_fields(raw: Raw) -> RequestFields:
    """The same fields in an object inside the body; none of them when it is no object."""
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return RequestFields()


def _lax_object(body: bytes) -> dict[str, object]:
    if not body:
        raise UnreadableBodyError("the request body is empty")
    try:
        value = json.loads(body, parse_float=_finite_or_null, parse_constant=_null)
    except json.JSONDecodeError as error:
        raise UnreadableBodyError(f"the request body is not valid JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableBodyError(
            f"the request body is not valid {error.encoding}: {error.reason} at byte {error.start}"
        ) from None
    except RecursionError:
        raise UnreadableBodyError("the request body is nested too deeply") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise UnreadableBodyError("the request body holds a number that is too long") from None
    if not isinstance(value, dict):
        raise UnreadableBodyError("the request body must be a JSON object")
    return value


def _strict_json(fields: dict[str, object]) -> bytes:
    try:
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    except RecursionError:
        raise UnreadableBodyError("the request body is nested too deeply") from None


def _finite_or_null(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


def _null(_name: str) -> None:
    return None
