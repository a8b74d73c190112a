"""What the engine says of itself at its start, in the words of several versions."""

import pytest

from proxy.vllm.doctor.evidence import StartUpFacts
from proxy.vllm.doctor.log_line import stripped
from proxy.vllm.doctor.start_up_facts import facts_of

GIB = 1 << 30


def facts(*lines: str) -> StartUpFacts:
    known = StartUpFacts()
    for line in lines:
        known = facts_of(known, stripped(line))
    return known


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("Model loading took 14.25 GiB memory and 3.1 seconds", "model_bytes", 14.25),
        ("Model loading took 14.25 GiB and 3.1 seconds", "model_bytes", 14.25),
        ("Loading model weights took 14.25 GB", "model_bytes", 14.25),
        ("Available KV cache memory: 52.5 GiB", "kv_cache_bytes", 52.5),
        ("Available KV cache memory: -1.5 GiB", "kv_cache_bytes", -1.5),
        (
            (
                "model weights take 14.25GiB; non_torch_memory takes 0.1GiB; the rest of the "
                "memory "
                "reserved for KV Cache is 52.5GiB."
            ),
            "kv_cache_bytes",
            52.5,
        ),
        ("Explicitly set (1.0/12.71) GiB for KV cache on node 0.", "host_kv_bytes", 1.0),
        ("Graph capturing finished in 20 secs, took 0.5 GiB", "graph_pool_bytes", 0.5),
        (
            (
                "Free memory on device (78.5/79.25 GiB) on startup. Desired GPU memory "
                "utilization is "
                "(0.9, 71.3 GiB)."
            ),
            "total_memory",
            79.25,
        ),
    ],
)
def test_sizes_are_read(line: str, field: str, value: float) -> None:
    assert getattr(facts(line), field) == int(value * GIB)


def test_the_kv_cache_in_tokens_and_what_it_carries() -> None:
    known = facts(
        "GPU KV cache size: 499,424 tokens",
        "Maximum concurrency for 32,768 tokens per request: 15.24x",
    )
    assert (known.kv_cache_tokens, known.max_concurrency) == (499_424, 15.24)
    assert known.max_concurrency_tokens == 32_768


def test_v0_counts_blocks() -> None:
    assert facts("# GPU blocks: 27756, # CPU blocks: 2048").kv_cache_tokens == 27756 * 16


def test_of_several_ranks_the_smallest_cache_and_the_largest_model_count() -> None:
    known = facts(
        "(Worker_TP0 pid=1) Available KV cache memory: 30.0 GiB",
        "(Worker_TP1 pid=2) Available KV cache memory: 20.0 GiB",
        "(Worker_TP0 pid=1) Model loading took 10.0 GiB and 1 seconds",
        "(Worker_TP1 pid=2) Model loading took 11.0 GiB and 1 seconds",
    )
    assert (known.kv_cache_bytes, known.model_bytes) == (20 * GIB, 11 * GIB)


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {'model': 'a/b', 'max_num_seqs': 64, 'gpu_memory_utilization': 0.85}",
        "args: Namespace(model='a/b', max_num_seqs=64, gpu_memory_utilization=0.85, port=1)",
        "vllm serve a/b --max-num-seqs 64 --gpu-memory-utilization=0.85",
        (
            "exec: ['vllm', 'serve', 'a/b'] vllm serve a/b '--max-num-seqs', '64' "
            "--gpu-memory-utilization 0.85"
        ),
    ],
)
def test_flags_are_read_from_arguments_in_any_form(line: str) -> None:
    flags = facts(line).flags
    assert (flags["max_num_seqs"], flags["gpu_memory_utilization"]) == ("64", "0.85")


def test_engine_version_and_model_come_from_the_first_words() -> None:
    new = facts("Initializing a V1 LLM engine (v0.11.0) with config: model='a/b', max_seq_len=8192")
    old = facts("Initializing an LLM engine (v0.6.3) with config: model='a/b'")
    assert (new.engine, new.version, new.model) == ("V1", "0.11.0", "a/b")
    assert new.flags["max_model_len"] == "8192"
    assert (old.engine, old.version) == ("V0", "0.6.3")


def test_the_arguments_win_over_the_config_that_follows_them() -> None:
    known = facts(
        "non-default args: {'tensor_parallel_size': 4}",
        "Initializing a V1 LLM engine (v1) with config: tensor_parallel_size=4, enforce_eager=True",
    )
    assert known.flags == {"tensor_parallel_size": "4", "enforce_eager": "True"}
