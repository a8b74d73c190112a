from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.openai_api.inline_media import MEDIUM_BYTES, text_bytes

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
