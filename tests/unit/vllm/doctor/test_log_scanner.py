"""A log, block after block."""

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import Findings, LogFindings
from proxy.vllm.doctor.log_scanner import LogScanner
from tests.support.doctor_logs import SERVING, findings_of, oom, stats, traceback

LOG = "\n".join(
    [
        *SERVING,
        stats(9, 1, 50.0),
        *traceback("vllm/v1/worker/gpu_model_runner.py:execute_model", error=oom()),
        "INFO:     10.0.0.1:1 - GET /health HTTP/1.1 200 OK",
    ]
).encode()


def scan(*blocks: bytes) -> LogFindings:
    scanner = LogScanner()
    for block in blocks:
        scanner.feed(block, "vllm.log")
    scanner.close("vllm.log")
    return scanner.findings()


@given(st.lists(st.integers(0, len(LOG)), max_size=5))
def test_every_cut_into_blocks_gives_the_same_findings(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(LOG)]
    blocks = [LOG[a:b] for a, b in itertools.pairwise(edges)]
    assert scan(*blocks) == scan(LOG)


def test_the_evidence_names_file_and_line() -> None:
    event = scan(LOG).lives[0].events[0]
    assert (event.evidence.file, event.evidence.line) == ("vllm.log", len(SERVING) + 5)
    assert event.evidence.text.startswith("torch.OutOfMemoryError")


def test_the_traceback_above_goes_with_the_event() -> None:
    event = scan(LOG).lives[0].events[0]
    assert [frame.function for frame in event.frames] == ["execute_model"]


def test_tracebacks_of_ranks_that_write_at_once_are_kept_apart() -> None:
    calls = (
        "vllm/v1/worker/gpu_worker.py:load_model",
        "vllm/v1/worker/gpu_worker.py:execute_model",
    )
    ranks = [
        traceback(call, error=oom(gpu=rank), prefix=f"(Worker_TP{rank} pid={rank + 9}) ERROR ")
        for rank, call in enumerate(calls)
    ]
    mixed = [line for pair in zip(*ranks, strict=True) for line in pair]
    events = findings_of(*mixed).lives[0].events
    assert [event.rank for event in events] == ["TP0", "TP1"]
    assert [event.frames[0].function for event in events] == ["load_model", "execute_model"]


def docker_json(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2025-05-20T12:00:00Z"})


CARRIERS = {
    "plain": str,
    "docker": docker_json,
    "loki": lambda line: json.dumps({"line": line, "labels": {"pod": "vllm-0"}}),
    "journald as JSON": lambda line: json.dumps({"MESSAGE": line, "_PID": "7"}),
    "kubernetes": lambda line: f"2025-05-20T12:00:00.123Z stderr F {line}",
    "docker in kubernetes": lambda line: f"[pod/vllm-0/vllm] 2025-05-20T12:00:00.1Z {line}",
    "journald": lambda line: f"May 20 12:00:00 gpu-7 docker[71]: {line}",
    "compose": lambda line: f"\x1b[36mvllm-1  |\x1b[0m {line}",
    "cloud": lambda line: f"ERROR 2025-05-20T12:00:00.1Z [resource.labels.podName: v] {line}",
    "ray": lambda line: f"\x1b[36m(RayWorkerWrapper pid=7, ip=10.0.0.3)\x1b[0m {line}",
    "windows": lambda line: f"{line}\r",
    "quoted": lambda line: f"> {line}",
}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS.keys())
def test_a_log_says_the_same_whatever_carried_it(carrier: Callable[[str], str]) -> None:
    calls = ("vllm/v1/worker/gpu_worker.py:load_model", "torch/nn/parameter.py:empty")
    rank = "(Worker_TP2_EP2 pid=9) ERROR 05-20 12:00:00 [core.py:7] "
    lines = [*SERVING, *traceback(*calls, error=oom(gpu=2), prefix=rank)]
    life = findings_of(*map(carrier, lines)).lives[0]
    assert [frame.function for frame in life.events[0].frames] == ["load_model", "empty"]
    assert (life.events[0].rank, life.events[0].gpu) == ("TP2_EP2", 2)
    assert (life.facts.kv_cache_tokens, life.facts.flags["max_num_seqs"]) == (311_296, "256")


def test_an_unfinished_last_line_counts_when_the_file_ends() -> None:
    scanner = LogScanner()
    scanner.feed(oom().encode(), "a.log")
    assert scanner.findings().lives == ()
    scanner.close("a.log")
    assert len(scanner.findings().lives[0].events) == 1


def test_facts_at_the_beginning_are_found_and_a_late_start_opens_the_window_again() -> None:
    filler = b"INFO:     10.0.0.1:1 - POST /v1/completions HTTP/1.1 200 OK\n" * 20_000
    start = "\n".join([*SERVING, ""]).encode()
    log = scan(start, *[filler] * 40, start)
    assert [life.facts.kv_cache_tokens for life in log.lives] == [311_296, 311_296]


def test_bytes_and_lines_are_counted_over_all_files() -> None:
    scanner = LogScanner()
    scanner.feed(b"one\n", "a.log")
    scanner.feed(b"two\n", "b.log")
    assert (scanner.findings().bytes, scanner.findings().lines) == (8, 2)


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe\x00" * 999, b"\n" * 999, b"\0" * 999, b"emory\xff" * 99]
)
def test_junk_is_read_without_a_word(junk: bytes) -> None:
    assert scan(junk * 999, junk).lives == ()


@given(st.lists(st.sampled_from(LOG.split(b"\n")) | st.binary(max_size=40), max_size=12), st.data())
def test_damaged_lines_never_stop_the_reading(lines: list[bytes], data: st.DataObject) -> None:
    log = bytearray(b"\n".join(lines))
    for _ in range(3):
        at = data.draw(st.integers(0, len(log)))
        log[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=4))
    diagnose(Findings(log=scan(bytes(log))))


@pytest.mark.parametrize(
    "word", ["1", "Free memory on device ", "Running: 1 reqs, Waiting: 1 ", '{"log":', "shm_ "]
)
def test_a_line_of_one_word_repeated_takes_no_time(word: str) -> None:
    scan(("error out of memory LLM engine KV cache " + word * (400_000 // len(word))).encode())


def test_an_access_line_with_a_server_error_is_no_error_of_the_engine() -> None:
    line = 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
    assert findings_of(line).lives == ()


def test_the_arguments_of_a_late_start_belong_to_it_though_a_block_ends_behind_them() -> None:
    filler = b"INFO:     10.0.0.1:1 - POST /v1/completions HTTP/1.1 200 OK\n" * 20_000
    arguments, *rest = [f"{line}\n".encode() for line in SERVING]
    first = b"".join([arguments, *rest])
    log = scan(first, *[filler] * 40, arguments.replace(b"256", b"64"), b"".join(rest))
    assert [life.facts.flags["max_num_seqs"] for life in log.lives] == ["256", "64"]
