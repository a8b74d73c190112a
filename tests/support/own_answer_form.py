"""The form of every answer that the gateway makes itself, as the contract gives it."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.raw_client import RawAnswer

_RETRY_STATUSES = (429, 503)
_RETRY_FIELDS = ("retry-after", "retry-after-ms")
_SHORTEST_S, _LONGEST_S = 1, 55


def check_own_answer(
    answer: RawAnswer, status: int, type_: str, code: str, *, is_gated: bool = False
) -> str:
    """Fails unless `answer` is a whole, well-formed own answer of this kind; gives its message.

    `is_gated`: the gateway knew by then that the request was for a gated route.
    """
    assert (answer.status, _values(answer, "x-sluice-reason")) == (status, [code]), answer
    assert answer.complete
    assert _values(answer, "content-type") == ["application/json"]
    assert _values(answer, "content-length") == [str(len(answer.body))]
    assert _values(answer, "transfer-encoding") == []
    (request_id,) = _values(answer, "x-request-id")
    assert request_id
    _check_timing(answer, is_gated)
    _check_retry_fields(answer)
    return _check_body(answer.body, type_, code)


def _values(answer: RawAnswer, name: str) -> list[str]:
    return [value for key, value in answer.headers if key.lower() == name]


def _check_timing(answer: RawAnswer, is_gated: bool) -> None:
    timing = _values(answer, "server-timing")
    if is_gated:
        (queue,) = timing
        assert re.fullmatch(r"queue;dur=\d+(\.\d+)?", queue)
    else:
        assert timing == []


def _check_retry_fields(answer: RawAnswer) -> None:
    if answer.status not in _RETRY_STATUSES:
        assert [_values(answer, name) for name in _RETRY_FIELDS] == [[], []]
        return
    (seconds,) = _values(answer, "retry-after")
    (milliseconds,) = _values(answer, "retry-after-ms")
    assert seconds.isdecimal()
    assert _SHORTEST_S <= int(seconds) <= _LONGEST_S
    assert milliseconds.isdecimal()
    assert math.ceil(int(milliseconds) / 1000) == int(seconds)


def _check_body(body: bytes, type_: str, code: str) -> str:
    decoded = json.loads(body)
    assert list(decoded) == ["error"]
    error = decoded["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == (type_, None, code)
    message: str = error["message"]
    assert message
    return message
