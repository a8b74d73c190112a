"""Which bodies can be read, and that reading agrees with Python's json, the engine's reader."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.openai_api import request_fields
from proxy.openai_api.request_fields import (
    UnreadableBodyError,
    nested_fields,
    read_fields,
    read_strict_fields,
)


def n_of(body: bytes) -> bytes:
    return bytes(read_fields(body).n)


def test_a_field_is_the_raw_json_of_its_value() -> None:
    assert n_of(b'{"model": "x", "n" : [1, {"a": 2}] }') == b'[1, {"a": 2}]'


# Brackets in one another. Python 3.14 has a bound on bytes of the stack, not on calls.
TOO_MANY = 1_000_000


@pytest.mark.parametrize("body", [b'{"n": NaN}', b"[]", b"", b'{"a":' + b"[" * 100_000])
def test_a_strict_reading_takes_nothing_but_plain_json(body: bytes) -> None:
    assert bytes(read_strict_fields(b'{"n": 1}').n) == b"1"
    with pytest.raises(UnreadableBodyError):
        read_strict_fields(body)


def test_a_field_that_is_absent_is_empty() -> None:
    assert n_of(b"{}") == b""


def test_the_last_of_repeated_keys_counts() -> None:
    assert n_of(b'{"n": 1, "n": 2}') == b"2"


def test_an_escaped_key_is_the_same_key() -> None:
    assert n_of(b'{"n": 1, "\\u006e": 9}') == b"9"


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": NaN, "n": 3}',
        b'{"a": [Infinity, -Infinity], "n": 3}',
        b'{"a": "\\ud800", "n": 3}',
        b'{"a": "\\uDFFF \\ud83d\\ude00", "n": 3}',
        b'{"\\ud800": 1, "n": 3}',
        b'{"a": "\\\\ud800", "b": NaN, "n": 3}',
        b'{"a": "NaN \\"Infinity", "b": NaN, "n": 3}',
        b"\xef\xbb\xbf" + b'{"n": 3}',
        '{"a": "é", "n": 3}'.encode("utf-16"),
        '{"n": 3}'.encode("utf-16-le"),
        '{"n": 3}'.encode("utf-16-be"),
        '{"n": 3}'.encode("utf-32"),
        b'{"a": "\xff", "n": 3}',
        b'{"a": 1e999, "n": 3}',
        b'{"n": 3, "a": ' + b"1" * 5000 + b"}",
    ],
)
def test_what_the_engine_might_read_is_read(body: bytes) -> None:
    assert n_of(body) == b"3"


def test_rewriting_a_body_for_reading_makes_no_new_keys() -> None:
    # U+D06E is a letter of its own; cut down to U+006E it would be an "n".
    assert n_of(b'{"n": 100, "\\ud06e": 1, "z": NaN}') == b"100"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request body is empty"),
        (b"[]", "the request body must be a JSON object"),
        (b'"text"', "the request body must be a JSON object"),
        (b"null", "the request body must be a JSON object"),
        (b"NaN", "the request body cannot be read"),
        (b'{"n": 1,}', "the request body cannot be read: JSON is malformed"),
        (b'{"n": 1', "the request body cannot be read"),
        (b'{"n": 1} x', "the request body cannot be read"),
        (b"secret", "the request body cannot be read"),
        (b"\xff\xfe{\x00\x00", "the request body is not valid utf-16"),
        (b'{"a": ' + b"[" * TOO_MANY, "the request body is nested too deeply"),
        (b'{"a": ' * TOO_MANY, "the request body is nested too deeply"),
        (b'{"x": NaN, "a": ' + b"[" * TOO_MANY, "the request body is nested too deeply"),
    ],
)
def test_the_rest_is_unreadable_and_the_message_says_why_in_one_line(
    body: bytes, message: str
) -> None:
    with pytest.raises(UnreadableBodyError) as caught:
        read_fields(body)
    words = str(caught.value)
    assert words.startswith(message)
    assert "\n" not in words
    assert "secret" not in words


def test_an_object_inside_is_read_alike_and_anything_else_has_no_fields() -> None:
    assert bytes(nested_fields(msgspec.Raw(b'{"n": 2}')).n) == b"2"
    assert bytes(nested_fields(msgspec.Raw(b"[2]")).n) == b""
    assert bytes(nested_fields(msgspec.Raw()).n) == b""


WORDS = st.sampled_from(
    [*'uCdDNaInfity-,:[ x\\"', "\\uC", "\\ud", "NaN", "Infinity", ":NaN", ",-Infinity", "\\\\ud"]
)


@given(st.lists(WORDS, max_size=60).map(lambda words: "".join(words).encode()))
@example(b"[NaN,-Infinity, Infinity]")
@example(b'"\\uCafe\\ud800\\uD800"')
def test_wherever_a_body_is_divided_for_rewriting_it_is_rewritten_alike(body: bytes) -> None:
    words = [b"1", b"2", b"3"]
    whole = request_fields._strict_piece(body, words)
    pieces = list(request_fields._pieces(body))
    assert pieces == ([body] if body else [])
    with pytest.MonkeyPatch.context() as patch:
        for size in (1, 2, 5):
            patch.setattr(request_fields, "_PIECE_BYTES", size)
            assert b"".join(request_fields._pieces(body)) == body
            assert request_fields._strict(body, words) == whole


def test_a_body_is_rewritten_in_small_pieces_whatever_it_is() -> None:
    """The whole at once held the interpreter for 300 ms, at 60 MiB of NaN."""
    for word in (b"NaN,", b"\\ud83d", b"\\uD83D", b" -Infinity"):
        pieces = [len(piece) for piece in request_fields._pieces(word * 100_000)]
        assert max(pieces) < 70_000


@given(st.binary() | st.binary().map(lambda some: b'{"n":' + some + b"}"))
def test_arbitrary_bytes_are_read_or_unreadable_and_nothing_else(body: bytes) -> None:
    try:
        read_fields(body)
    except UnreadableBodyError:
        return


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet=st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(
    fields=st.dictionaries(
        st.sampled_from(["n", "messages", "prompt", "other", "NaN"]), JSON_VALUES
    ),
    ascii_only=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_whatever_python_writes_as_an_object_is_read(
    fields: dict[str, Any], ascii_only: bool, encoding: str
) -> None:
    body = json.dumps(fields, ensure_ascii=ascii_only).encode(encoding, "surrogatepass")
    read = read_fields(body)
    for name in ("n", "messages", "prompt"):
        assert (bytes(getattr(read, name)) != b"") == (name in fields)
