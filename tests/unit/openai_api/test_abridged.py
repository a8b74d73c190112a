from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.openai_api.abridged import WINDOW_BYTES, Abridged, abridge
from proxy.openai_api.blocks import Blocks
from proxy.openai_api.counting import count_items
from proxy.openai_api.steps import all_at_once

LONG = "a text without a quote " * 10_000


def abridged(body: bytes) -> Abridged:
    short = all_at_once(abridge(Blocks([body]), most=len(body)))
    assert short is not None
    return short


def shares_left(text: str) -> float:
    body = json.dumps({"prompt": text}, ensure_ascii=False).encode()
    return len(abridged(body).text) / len(body)


@pytest.mark.parametrize("text", [LONG, "iVBORw0KGgo+/" * 20_000, "\u4e2d\u6587" * 40_000])
def test_of_a_long_string_little_is_left(text: str) -> None:
    assert shares_left(text) < 0.2


def test_of_a_text_with_escapes_little_is_left() -> None:
    assert shares_left('He said: "Go on."\n And so, with a \\, they went on and on.\t' * 4000) < 0.2


@pytest.mark.parametrize(
    "value",
    [
        list(range(50_000)),
        [[0.5, -1e-3]] * 9000,
        ['a short text, of \\ "a", [1, 2], {3}'] * 10_000,
        [{"role": "user", "content": 'a, "b"'}] * 5000,
        [[1, 2], "a", {"b": [1, 2]}, None, []] * 5000,
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_of_a_long_list_little_is_left_and_its_items_are_told(
    value: list[object], indent: int | None
) -> None:
    body = json.dumps({"prompt": value}, indent=indent).encode()
    short = abridged(body)
    assert len(short.text) < 0.2 * len(body)
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert count_items(raw) == len(value)
    assert json.loads(bytes(short.in_full(raw))) == value


def test_behind_a_long_string_a_long_list_is_found_as_well() -> None:
    body = json.dumps({"a": "x" * 50_000, "prompt": ["a, b"] * 10_000}).encode()
    short = abridged(body)
    assert len(short.text) < 20_000  # one window has a part of each
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert count_items(raw) == 10_000


@pytest.mark.parametrize(
    "value",
    [
        {f"key {number}": number for number in range(5000)},
        [list(range(5000))],
        [{"a": {f"key {number}": [] for number in range(5000)}}],
    ],
)
def test_items_are_those_of_the_outermost_list_only(value: object) -> None:
    body = json.dumps({"prompt": value}).encode()
    short = abridged(body)
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert count_items(raw) == count_items(Raw(json.dumps(value).encode())) == 1
    assert json.loads(bytes(short.in_full(raw))) == value


@pytest.mark.parametrize(
    "value",
    [
        {f"key {number}": number for number in range(9000)},
        [{"a": 1}, float("nan")] * 9000,
    ],
)
def test_what_is_neither_is_left_whole(value: object) -> None:
    body = json.dumps({"prompt": value}).encode()
    assert abridged(body).text == body


@given(st.integers(0, 40), st.sampled_from(["\\n", "\\\\", '\\"', "\\u00e9", "\\ud83d\\ude00"]))
def test_no_escape_is_cut_in_two(before: int, escape: str) -> None:
    """Wherever a window begins and ends: what is left could be decoded."""
    text = "x" * before + (escape + "text of some forty characters in between") * 1500
    body = f'{{"prompt":"{text}"}}'.encode()
    short = abridged(body)
    assert len(short.text) < len(body)
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert bytes(short.in_full(raw)) == f'"{text}"'.encode()


def test_nothing_is_made_of_a_body_of_which_too_much_is_left() -> None:
    for value in ({f"key {number}": number for number in range(9000)}, ["x" * 900] * 3000):
        body = Blocks([json.dumps(value).encode()])
        assert all_at_once(abridge(body, most=100_000)) is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"role": "user", "n": n % 10} for n in range(9000)]),
        json.dumps(json.dumps([{"a": "b"}] * 9000)),
        "\u4e2d\u6587" * 20_000,
        "\U0001f600" * 20_000,
        "x\U0001f600" * 20_000,
        '"' * 90_000,
        "\t\U0001f600\u4e2d" * 20_000,
    ],
)
def test_of_a_text_that_is_nearly_all_escapes_little_is_left(text: str) -> None:
    """JSON within JSON was refused above 18 MiB: "more than two million quotes"."""
    body = json.dumps({"prompt": text}).encode()
    short = abridged(body)
    assert len(short.text) < 0.02 * len(body)
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert json.loads(bytes(short.in_full(raw))) == text


def test_of_a_text_of_numbers_little_is_left() -> None:
    assert shares_left("12, 3.5, -4e7, " * 40_000) < 0.05  # the first window might be a list


@given(
    st.lists(
        st.sampled_from(["\\", '"', "\n", "\u4e2d", "\U0001f600", "a", "bcd", "\\" * 40]),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 12),
)
def test_wherever_a_text_is_cut_it_is_found_again(units: list[str], before: int) -> None:
    text = "x" * before + "".join(units) * 2000
    short = abridged(json.dumps({"prompt": text}).encode())
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert json.loads(bytes(short.in_full(raw))) == text


def test_a_window_of_backslashes_is_left_and_costs_no_other() -> None:
    body = json.dumps({"prompt": LONG + "\\" * WINDOW_BYTES + LONG}).encode()
    short = abridged(body)
    assert 2 * WINDOW_BYTES < len(short.text) < 5 * WINDOW_BYTES
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["prompt"]
    assert bytes(short.in_full(raw)) == body[len(b'{"prompt": ') : -1]


@pytest.mark.parametrize("fault", [b"\x00", b"\n", b"\\x", b"\\ud800 "])
def test_what_the_decoder_would_refuse_is_left_for_it(fault: bytes) -> None:
    body = b'{"prompt":"' + b"x" * 50_000 + fault + b"x" * 50_000 + b'"}'
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(abridged(body).text, type=dict[str, Raw])


@pytest.mark.parametrize("outside", ["{}", '{{"a":1}}{}', '{{"a":{}1}}', "[{}", "{}x"])
def test_where_no_string_is_a_mark_is_no_json(outside: str) -> None:
    body = outside.format("x" * 3 * WINDOW_BYTES).encode()
    text = abridged(body).text
    assert len(text) < len(body)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=Raw)


def test_every_value_is_found_again_in_full() -> None:
    values = {"a": LONG, "b": [LONG, "short", {"c": LONG}], "d": "short", "e": [1] * 30_000}
    body = json.dumps(values).encode()
    short = abridged(body)
    found = msgspec.json.decode(short.text, type=dict[str, Raw])
    assert {key: json.loads(bytes(short.in_full(raw))) for key, raw in found.items()} == values


def test_a_string_with_a_mark_has_no_value() -> None:
    """As one that is too long for a value."""
    short = abridged(json.dumps({"model": LONG}).encode())
    raw = msgspec.json.decode(short.text, type=dict[str, Raw])["model"]
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(raw, type=str)
