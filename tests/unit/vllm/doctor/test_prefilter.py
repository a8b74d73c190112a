"""Which lines of a block are worth reading."""

import pytest

from proxy.vllm.doctor.prefilter import START_BYTES, Prefilter, lines_at_an_end

ACCESS = b'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'


def interesting(data: bytes) -> list[bytes]:
    found, _ = Prefilter().lines_of_interest(data)
    return [data[start:end] for start, end in found]


def test_whole_lines_come_in_order_and_once() -> None:
    data = b"KV cache memory error\n" + ACCESS + b"an error\nlast memory"
    assert interesting(data) == [b"KV cache memory error", b"an error", b"last memory"]


@pytest.mark.parametrize(
    "line",
    [
        b"Received request cmpl-1: prompt: 'CUDA out of memory Error', params: SamplingParams()",
        b"INFO 05-20 12:00:00 [a.py:1] Added request cmpl-1 memory",
        b'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        b'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\r',
    ],
)
def test_a_clients_words_and_its_answers_are_passed_over(line: bytes) -> None:
    assert interesting(line + b"\n" + ACCESS) == []


def test_start_up_lines_are_looked_for_near_a_beginning_alone() -> None:
    line = b"Loading model weights took 14.2 GB\n"
    filler = ACCESS * (START_BYTES // len(ACCESS) // 8)
    prefilter = Prefilter()
    assert prefilter.lines_of_interest(line)[0]
    for _ in range(9):
        prefilter.lines_of_interest(filler)
    assert not prefilter.lines_of_interest(line)[0]
    assert prefilter.lines_of_interest(b"Initializing a V1 LLM engine\n" + line)[0][1:]


def test_a_kill_is_looked_for_at_an_end_and_beside_errors() -> None:
    killed = b"vllm-1 exited with code 137"
    assert interesting(killed) == []
    assert lines_at_an_end(killed) == [(0, len(killed))]
    assert killed in interesting(b"EngineDeadError: x\n" + killed)


def test_how_a_server_ended_stands_in_lines_without_an_error() -> None:
    data = b"INFO:     Shutting down\nINFO: 1.2.3.4 GET /health 200\n[rank0] Watchdog caught it\n"
    assert len(lines_at_an_end(data)) == 2
