"""Our own trace: what clients wanted, with sizes told or made up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.replay.traces.trace import Trace


def _line(offset_s: float, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    return {
        "v": 1,
        "arrived_wall_s": 1000.0 + offset_s,
        "offset_s": offset_s,
        "route": "chat_completions",
        "outcome": "ok",
        "status": 200,
        "seats": 1,
        "body_bytes": 550,
        "response_bytes": 2200,
        "stream": True,
        "attempt": 0,
        "queue_wait_s": 0.0,
        "ttfb_s": 0.1,
        "duration_s": 1.0,
        **changes,
    }


def _read(path: Path, *lines: dict[str, Any]) -> Trace:
    file = path / "t.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_trace(file)


def test_first_tries_of_generations_are_replayed_in_order_of_arrival(tmp_path: Path) -> None:
    trace = _read(
        tmp_path,
        _line(3.0),
        _line(1.0, outcome="shed", status=503),
        _line(2.0, attempt=1),
        _line(2.5, route="embeddings"),
        _line(2.6, outcome="client_error", status=400),
    )
    assert [arrival.at_s for arrival in trace.arrivals] == [0.0, 2.0]
    assert trace.notes[:3] == (
        "1 requests that generate nothing left out",
        "1 requests that were wrong left out",
        "1 retries (the replay's clients retry by themselves) left out",
    )


def test_less_than_no_tokens_are_said_to_be_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadTraceError, match=r"line 1: .*prompt_tokens"):
        _read(tmp_path, _line(0, prompt_tokens=-1))


def test_version_1_has_no_tokens_so_they_are_made_up_from_bytes(tmp_path: Path) -> None:
    (arrival,) = _read(tmp_path, _line(0)).arrivals
    assert (arrival.prompt_tokens, arrival.output_tokens) == (100, 10)


def test_tokens_that_were_told_are_taken_and_teach_the_others(tmp_path: Path) -> None:
    told = _line(0, v=2, prompt_bytes=400, prompt_tokens=200, output_tokens=22)
    first, second = _read(tmp_path, told, _line(1, prompt_bytes=400)).arrivals
    assert (first.prompt_tokens, first.output_tokens) == (200, 22)
    assert (second.prompt_tokens, second.output_tokens) == (200, 22)


def test_a_refused_request_wanted_its_max_tokens_or_what_others_got(tmp_path: Path) -> None:
    refused = {"outcome": "shed", "status": 503, "response_bytes": 90}
    lines = [_line(0), _line(1, **refused, max_tokens=77), _line(2, **refused)]
    assert [a.output_tokens for a in _read(tmp_path, *lines).arrivals] == [10, 77, 10]


def test_a_request_refused_unread_is_as_large_as_some_answered_one(tmp_path: Path) -> None:
    unread = {"outcome": "shed", "status": 503, "body_bytes": 0, "response_bytes": 90}
    _, second = _read(tmp_path, _line(0), _line(1, **unread)).arrivals
    assert (second.prompt_tokens, second.output_tokens) == (100, 10)


def test_a_request_for_several_sequences_asks_for_as_many_again(tmp_path: Path) -> None:
    wide = {"seats": 4, "prompt_tokens": 9, "output_tokens": 80}
    unread = {"outcome": "shed", "seats": 0, "body_bytes": 0}
    trace = _read(tmp_path, _line(0, **wide), _line(1, **unread))
    sizes = [(a.prompt_tokens, a.output_tokens, a.sequences) for a in trace.arrivals]
    assert sizes == [(9, 20, 4)] * 2
    assert any("1 requests for several sequences are played with n" in n for n in trace.notes)


def test_max_tokens_is_of_each_sequence_and_bytes_are_of_all(tmp_path: Path) -> None:
    line = _line(0, seats=2, response_bytes=8800, max_tokens=30)
    assert _read(tmp_path, line).arrivals[0].output_tokens == 20


def test_after_a_restart_the_wall_clock_counts(tmp_path: Path) -> None:
    trace = _read(tmp_path, _line(5.0), _line(0.0, arrived_wall_s=1100.0))
    assert [arrival.at_s for arrival in trace.arrivals] == [0.0, 95.0]
