from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from proxy.openai_api.inline_media import MEDIUM_BYTES, text_bytes, text_bytes_in_steps
from proxy.openai_api.steps import all_at_once

PICTURE = "iVBORw0KGgo+/" * 20_000


def data_url(payload: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + payload}}


def block(payload: str) -> dict[str, object]:
    source = {"type": "base64", "media_type": "image/png", "data": payload}
    return {"type": "image", "source": source}


def length(value: object) -> int:
    return text_bytes(Raw(json.dumps(value).encode()))


def test_text_is_as_long_as_it_is() -> None:
    for text in ("", "a", "word " * 20_000, "base64 " * 20_000, '"base64," ' * 9000):
        assert length([text]) == len(json.dumps([text]))


def test_a_picture_counts_the_same_whatever_its_size() -> None:
    for part in (data_url, block):
        plain = len(json.dumps([part("")]))
        assert length([part(PICTURE)]) == length([part(PICTURE * 2)]) == plain + MEDIUM_BYTES


def test_each_picture_counts_and_the_text_around_them() -> None:
    parts = [data_url(PICTURE), {"text": "what is that? " * 100}, block(PICTURE), data_url("tiny")]
    pictures = 2 * len(PICTURE)
    assert length(parts) == len(json.dumps(parts)) - pictures + 2 * MEDIUM_BYTES


def test_a_body_too_small_to_matter_is_not_searched() -> None:
    assert length([data_url("x" * 5000)]) == len(json.dumps([data_url("x" * 5000)]))


@given(st.integers(0, 5000), st.integers(0, 3000))
def test_a_picture_is_found_wherever_it_stands(before: int, more: int) -> None:
    picture = "A" * (MEDIUM_BYTES + more)
    parts = [{"text": "a " * (before // 2)}, data_url(picture), {"text": "what is it? " * 3000}]
    assert length(parts) == len(json.dumps(parts)) - more


@given(st.lists(st.text(max_size=20) | st.just("base64,"), max_size=5), st.integers(0, 60_000))
def test_it_is_never_longer_than_it_is_nor_negative(texts: list[str], filling: int) -> None:
    body = json.dumps([*texts, "x" * filling, *texts]).encode()
    assert 0 <= text_bytes(Raw(body)) <= len(body)


_BEFORE_DATA = re.compile(
    rb'base64"[^{}]{0,200}"data"[ \t\r\n]{0,20}:[ \t\r\n]{0,20}"\Z', re.DOTALL
)


def slowly(prompt: bytes) -> int:
    """String after string: what begins a medium, and what it is too long."""
    saved = start = 0
    for quote in re.finditer(b'"', prompt):
        end = quote.start()
        url = prompt.find(b"base64,", start, end)
        if _BEFORE_DATA.search(prompt[max(start - 300, 0) : start]):
            saved += max(end - start - MEDIUM_BYTES, 0)
        elif url >= 0:
            saved += max(end - url - len(b"base64,") - MEDIUM_BYTES, 0)
        start = end + 1
    return len(prompt) - saved


_LONG = st.sampled_from([4000, 4096, 4097, 5000, 8200, 61_000]).map(b"A".__mul__)
_BLANKS = st.sampled_from([0, 1, 20, 21]).map(b" ".__mul__)
_PIECES = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from([b'base64"', b'"base64"', b'base64","data":"x"', b"base64", b'"base64,']),
    st.sampled_from([b"", b"{", b"}", b",", b"base64,"]),
    st.sampled_from([0, 1, 150, 190, 198, 199, 200, 201, 250, 4096]).map(b"x".__mul__),
    st.sampled_from([b'"data"', b'"data"', b'"data"', b'"date"', b'"base64,']),
    _BLANKS,
    st.just(b":"),
    _BLANKS,
    st.just(b'"'),
    st.just(b"") | st.sampled_from([b"base64,", b"x base64,"]),
    _LONG,
    st.sampled_from([b'"', b'",', b'"}', b'\\"']),
)


@settings(max_examples=150)
@given(st.integers(0, 9000), st.lists(_PIECES, min_size=1, max_size=6).map(b"".join))
def test_media_are_found_as_by_reading_string_after_string(before: int, some: bytes) -> None:
    """Whatever windows they fall into."""
    prompt = b"A" * (63 * 1024 - before) + b'"' + some + b'"'
    assert all_at_once(text_bytes_in_steps(prompt)) == slowly(prompt)


@pytest.mark.parametrize("boundary", range(64_490, 64_540))
def test_a_medium_is_found_where_it_begins_between_two_windows(boundary: int) -> None:
    for begin in (b'" base64,', b'"base64","data" : "'):
        prompt = b"A" * (boundary - len(begin)) + begin + b"A" * 5000 + b'"'
        assert all_at_once(text_bytes_in_steps(prompt)) == len(prompt) - 5000 + MEDIUM_BYTES


@pytest.mark.parametrize(
    ("between", "blanks", "is_found"),
    [(200, 20, True), (201, 20, False), (200, 21, False), (0, 0, True)],
)
def test_a_type_and_its_data_may_stand_so_far_apart(
    between: int, blanks: int, is_found: bool
) -> None:
    blank = b" " * blanks
    begin = b'"x","base64"' + b"," * between + b'"data"' + blank + b":" + blank + b'"'
    prompt = begin + b"A" * 50_000 + b'"'
    saved = 50_000 - MEDIUM_BYTES if is_found else 0
    assert text_bytes(Raw(prompt)) == len(prompt) - saved


class Counted(bytes):
    """Counts the bytes that are taken out of it."""

    taken = 0

    def __getitem__(self, where: slice, /) -> bytes:  # type: ignore[override]
        self.taken += len(super().__getitem__(where))
        return super().__getitem__(where)


@pytest.mark.parametrize("piece", [b'"base64,",', b'"base64","data":"",'])
def test_however_many_seem_to_begin_each_byte_is_read_a_few_times_at_most(piece: bytes) -> None:
    """A body of 256 KiB once held the event loop for a tenth of a second: each beginning looked
    for its end in text that others had looked at."""
    prompt = Counted(b'["' + b"A" * 5000 + b'",' + piece * 30_000 + b'"a"]')
    steps = text_bytes_in_steps(prompt)
    number = sum(1 for _ in steps)
    assert prompt.taken < 3 * len(prompt)
    assert number < len(prompt) / 20_000
