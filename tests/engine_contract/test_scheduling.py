"""How many sequences run, who waits, and what ends when a client leaves."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.engine_process import MAX_NUM_SEQS, wait_until
from tests.support.engine_requests import LooseRequest, chat, completion

if TYPE_CHECKING:
    from tests.support.engine_process import EngineProcess
    from tests.support.engine_requests import Json

LONG = 1900


def send(engine: EngineProcess, body: Json, path: str = "/v1/completions") -> LooseRequest:
    return LooseRequest(engine.url, path, body)


def test_no_more_run_than_max_num_seqs_and_the_rest_waits_inside(
    idle_engine: EngineProcess,
) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_NUM_SEQS + 4):
            stack.enter_context(closing(send(idle_engine, completion(LONG))))
        wait_until(lambda: idle_engine.waiting == 4, "four that wait")
        assert idle_engine.running == MAX_NUM_SEQS
        assert idle_engine.metric("vllm:num_requests_waiting_by_reason", reason="capacity") == 4
        assert idle_engine.metric("vllm:num_requests_waiting_by_reason", reason="deferred") == 0


def test_long_prompts_wait_inside_although_there_are_seats(idle_engine: EngineProcess) -> None:
    """A step computes only so many tokens of prompts: seats alone do not empty this queue."""
    prompts = [[7 + number] * LONG for number in range(MAX_NUM_SEQS - 1)]
    with ExitStack() as stack:
        for prompt in prompts:
            stack.enter_context(closing(send(idle_engine, completion(100, prompt=prompt))))
        wait_until(lambda: idle_engine.waiting > 0, "one that waits")
        assert idle_engine.running < MAX_NUM_SEQS - 1


def test_a_waiting_request_runs_when_another_ends(idle_engine: EngineProcess) -> None:
    with ExitStack() as stack:
        running = [send(idle_engine, completion(LONG)) for _ in range(MAX_NUM_SEQS)]
        for request in running:
            stack.enter_context(closing(request))
        wait_until(lambda: idle_engine.running == MAX_NUM_SEQS, "a full engine")
        waiting = stack.enter_context(closing(send(idle_engine, completion(2))))
        wait_until(lambda: idle_engine.waiting == 1, "one that waits")
        running[0].close()
        assert b"200 OK" in waiting.read_until(b"\r\n\r\n")


@pytest.mark.parametrize(
    "body",
    [completion(LONG, n=3), completion(LONG, prompt=["a", "b", "c"])],
    ids=["n", "prompts"],
)
def test_every_sequence_of_a_request_counts(idle_engine: EngineProcess, body: Json) -> None:
    with closing(send(idle_engine, body)):
        wait_until(lambda: idle_engine.running == 3, "three sequences")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("path", "body"), [("/v1/completions", completion(LONG)), ("/v1/chat/completions", chat(LONG))]
)
def test_a_client_that_leaves_a_running_request_aborts_it(
    idle_engine: EngineProcess, path: str, body: Json, stream: bool
) -> None:
    before = idle_engine.aborted
    with closing(send(idle_engine, {**body, "stream": stream}, path)):
        wait_until(lambda: idle_engine.running == 1, "a running request")
    wait_until(lambda: idle_engine.running == 0, "an idle engine", within_s=1.0)
    wait_until(lambda: idle_engine.aborted == before + 1, "an abort", within_s=1.0)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_that_leaves_a_waiting_request_aborts_it(
    idle_engine: EngineProcess, stream: bool
) -> None:
    before = idle_engine.aborted
    with ExitStack() as stack:
        for _ in range(MAX_NUM_SEQS):
            stack.enter_context(closing(send(idle_engine, completion(LONG))))
        wait_until(lambda: idle_engine.running == MAX_NUM_SEQS, "a full engine")
        with closing(send(idle_engine, completion(LONG, stream=stream))):
            wait_until(lambda: idle_engine.waiting == 1, "one that waits")
        wait_until(lambda: idle_engine.waiting == 0, "none that waits", within_s=1.0)
        assert idle_engine.running == MAX_NUM_SEQS
        wait_until(lambda: idle_engine.aborted == before + 1, "an abort", within_s=1.0)


def test_a_client_that_leaves_a_wide_request_aborts_all_of_it(idle_engine: EngineProcess) -> None:
    with closing(send(idle_engine, completion(LONG, n=3))):
        wait_until(lambda: idle_engine.running == 3, "three sequences")
    wait_until(lambda: idle_engine.running == 0, "an idle engine", within_s=1.0)


def test_what_a_client_gave_up_is_in_no_count_of_finished_requests(
    idle_engine: EngineProcess,
) -> None:
    def finished() -> float:
        return idle_engine.metric("vllm:request_success_total")

    before, aborted_before = finished(), idle_engine.aborted
    with closing(send(idle_engine, completion(LONG))):
        wait_until(lambda: idle_engine.running == 1, "a running request")
    wait_until(lambda: idle_engine.aborted == aborted_before + 1, "an abort")
    with closing(send(idle_engine, completion(1))) as another:
        another.read_until(b"}]")
    wait_until(lambda: finished() > before, "the request after it")
    assert finished() == before + 1
    assert idle_engine.finished("abort") == 0


def test_a_connection_is_kept_for_the_next_request(engine: EngineProcess) -> None:
    with closing(send(engine, completion(1))) as first:
        assert b"connection: close" not in first.read_until(b"}]").lower()


def test_an_idle_connection_is_closed_after_five_seconds(engine: EngineProcess) -> None:
    parts, answer = urlsplit(engine.url), b""
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=15.0) as idle:
        idle.sendall(f"GET /version HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        while b"0.32.0" not in answer:
            answer += idle.recv(65_536)
        answered = time.monotonic()
        assert idle.recv(1) == b""
        assert 4.0 < time.monotonic() - answered < 10.0
