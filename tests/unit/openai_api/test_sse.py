"""The event that ends a stream which the engine broke off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy.openai_api.sse import anthropic_error_event, error_event

if TYPE_CHECKING:
    from collections.abc import Callable


def events(stream: bytes) -> list[bytes]:
    """Data of each event of a stream whose lines end in LF or CRLF."""
    blocks = stream.replace(b"\r\n", b"\n").split(b"\n\n")
    lines = [[line for line in block.split(b"\n") if line.startswith(b"data:")] for block in blocks]
    return [b"\n".join(block) for block in lines if block]


@pytest.mark.parametrize(
    "sent",
    [
        b'data: {"a": 1}\n\n',
        b'data: {"a": 1}\r\n\r\n',
        b'data: {"a": 1}\n',
        b'data: {"a": 1}\r\n',
        b'data: {"a": ',
        b": a comm",
        b"event: mess",
        b"",
    ],
)
@pytest.mark.parametrize("event", [error_event, anthropic_error_event])
def test_the_error_is_an_event_of_its_own_wherever_the_stream_broke(
    sent: bytes, event: Callable[[str, str, str], bytes]
) -> None:
    last = events(sent + event("gone", "upstream_error", "upstream_closed"))[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_closed"


def test_what_was_complete_before_stays_as_it_was() -> None:
    sent = b'data: {"a": 1}\n\ndata: {"b": 2}\n\n'
    assert events(sent + error_event("gone", "t", "c"))[:2] == events(sent)


def test_the_event_is_complete() -> None:
    assert error_event("gone", "t", "c").endswith(b"}\n\n")


def test_no_done_is_forged() -> None:
    assert b"[DONE]" not in error_event("gone", "t", "c")


def test_in_anthropics_form_it_has_the_name_and_the_type_that_its_sdks_look_for() -> None:
    name, data = anthropic_error_event("gone", "upstream_error", "c").strip().split(b"\n")
    assert name == b"event: error"
    assert json.loads(data.removeprefix(b"data: ")) == {
        "type": "error",
        "error": {"message": "gone", "type": "upstream_error", "param": None, "code": "c"},
    }
