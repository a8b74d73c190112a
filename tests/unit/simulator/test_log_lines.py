from __future__ import annotations

import re

from proxy.simulator.log_lines import (
    LogLine,
    death_lines,
    farewell_lines,
    out_of_memory_lines,
    serving_lines,
    start_up_lines,
)
from proxy.simulator.options import SimulatorOptions


def texts(lines: list[LogLine]) -> str:
    return "\n".join(line.text for line in lines)


def test_a_line_looks_as_vllms_do() -> None:
    line = LogLine("APIServer", "INFO", "entry.py:140", "Starting")
    assert re.fullmatch(
        r"\(APIServer pid=7\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[entry.py:140\] Starting",
        line.format(pid=7, wall_s=0.0),
    )


def test_the_web_servers_lines_look_as_uvicorns_do() -> None:
    told = [line.format(pid=7, wall_s=0.0) for line in (*serving_lines(7), *farewell_lines())]
    assert told == [
        "INFO:     Started server process [7]",
        "INFO:     Waiting for application startup.",
        "INFO:     Application startup complete.",
        "INFO:     Shutting down",
        "INFO:     Waiting for application shutdown.",
        "INFO:     Application shutdown complete.",
    ]


def test_start_up_tells_the_arguments_and_the_size_of_the_cache() -> None:
    options = SimulatorOptions(kv_cache_tokens=1_048_576, max_model_len=2048, max_num_seqs=8)
    told = texts(start_up_lines(options, "http://127.0.0.1:8000"))
    assert "non-default args: {'max_num_seqs': 8, 'max_model_len': 2048" in told
    assert (
        "GPU KV cache size: 1,048,576 tokens, "
        "Maximum concurrency for 2,048 tokens per request: 512.00x"
    ) in told
    assert "Available KV cache memory: 128.00 GiB" in told
    assert told.endswith("Starting vLLM server on http://127.0.0.1:8000")


def test_the_key_is_not_logged() -> None:
    assert "sk-canary" not in texts(start_up_lines(SimulatorOptions(api_key="sk-canary"), "x"))


def test_out_of_memory_asks_for_more_than_is_free() -> None:
    told = texts(out_of_memory_lines(SimulatorOptions(), prefill_tokens=6000))
    match = re.search(
        r"CUDA out of memory\. Tried to allocate ([\d.]+) GiB\. GPU 0 has a total capacity of "
        r"24\.00 GiB of which ([\d.]+) GiB is free\.",
        told,
    )
    assert match
    assert float(match[1]) > float(match[2])


def test_the_cause_comes_before_the_death_that_follows_from_it() -> None:
    lines = out_of_memory_lines(SimulatorOptions(), prefill_tokens=6000)
    told = texts(lines)
    assert told.index("torch.OutOfMemoryError") < told.index("EngineDeadError")
    assert lines[-len(death_lines()) :] == death_lines()
    assert {line.level for line in lines} == {"ERROR"}
