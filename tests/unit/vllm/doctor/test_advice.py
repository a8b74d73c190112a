"""What to do, phase by phase."""

from typing import TYPE_CHECKING

from tests.support.doctor_logs import (
    LOADED,
    SERVING,
    STARTED,
    diagnosis_of,
    oom,
    stats,
    traceback,
)

if TYPE_CHECKING:
    from proxy.vllm.doctor.evidence import Diagnosis

RUNNER = "vllm/v1/worker/gpu_model_runner.py"


def values(diagnosis: "Diagnosis") -> dict[str, str | None]:
    return {step.set: step.value for step in diagnosis.advice}


def first(diagnosis: "Diagnosis") -> str:
    return diagnosis.advice[0].set


def test_a_taken_card_is_freed_or_asked_for_less() -> None:
    answer = diagnosis_of(
        *STARTED,
        "ValueError: Free memory on device (40.0/80.0 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 72.0 GiB).",
    )
    assert first(answer) == "the card's other processes"
    assert values(answer)["--gpu-memory-utilization"] == "0.49"


def test_weights_that_do_not_fit_need_cards_and_not_another_utilization() -> None:
    answer = diagnosis_of(*STARTED, *traceback(f"{RUNNER}:load_model", error=oom()))
    assert values(answer)["--tensor-parallel-size"] == "2"
    assert "--gpu-memory-utilization" not in values(answer)


def test_a_hybrid_model_gets_the_engines_own_count_of_states() -> None:
    answer = diagnosis_of(
        *STARTED, "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (161)."
    )
    assert (first(answer), values(answer)["--max-num-seqs"]) == ("--max-num-seqs", "161")
    assert values(answer)["SLUICE_MAX_IN_FLIGHT"] == "144"


def test_a_kernels_workspace_is_no_oom_and_has_a_setting_of_its_own() -> None:
    answer = diagnosis_of(
        *STARTED,
        "RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size "
        "536346624 and alignment 16, but only 413138944 bytes available in AlignedAllocator.",
    )
    assert answer.oom is False
    assert values(answer)["VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"] == "1072693248"


def test_no_kv_cache_asks_for_more_utilization() -> None:
    answer = diagnosis_of(
        *LOADED,
        "INFO Available KV cache memory: -1.0 GiB",
        "Free memory on device (79.0/80.0 GiB) on startup",
        "ValueError: No available memory for the cache blocks.",
    )
    assert first(answer) == "--gpu-memory-utilization"
    assert values(answer)["--gpu-memory-utilization"] == "0.93"


def test_a_cache_below_one_request_takes_the_logs_estimate() -> None:
    answer = diagnosis_of(
        *LOADED,
        "ValueError: To serve at least one request with the models's max seq len "
        "(32768), (8.00 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (2.00 GiB). Based "
        "on the available memory, the estimated maximum model length is 8192.",
    )
    assert values(answer)["--max-model-len"] == "8192"
    assert "--kv-cache-dtype" not in values(answer)  # half of 8 GiB would not fit either


def test_without_an_estimate_the_length_follows_from_the_sizes() -> None:
    answer = diagnosis_of(
        "ValueError: To serve at least one request with the model's max seq len (32768), (8.00 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (6.00 GiB). Try",
    )
    assert values(answer)["--max-model-len"] == "24080"
    assert values(answer)["--kv-cache-dtype"] == "fp8"


def test_a_warm_up_needs_fewer_sequences_and_fewer_seats() -> None:
    answer = diagnosis_of(
        *traceback(f"{RUNNER}:_dummy_sampler_run", error=oom("1.74 GiB", "900.00 MiB")),
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 "
        "dummy requests.",
    )
    assert values(answer)["--max-num-seqs"] == "464"
    assert values(answer)["SLUICE_MAX_IN_FLIGHT"] == "417"


def test_a_prefill_needs_smaller_steps() -> None:
    answer = diagnosis_of(*SERVING, *traceback(f"{RUNNER}:execute_model", error=oom()))
    assert values(answer)["--max-num-batched-tokens"] == "4096"
    assert values(answer)["SLUICE_MAX_PREFILL_TOKENS"] == "8192"
    assert "--enable-chunked-prefill" not in values(answer)


def test_v0_is_told_of_chunked_prefill() -> None:
    answer = diagnosis_of(
        "Initializing an LLM engine (v0.6.3) with config: model='a/b'",
        "# GPU blocks: 1000, # CPU blocks: 10",
        "INFO:     Application startup complete.",
        *traceback("vllm/worker/model_runner.py:execute_model", error=oom()),
    )
    assert "--enable-chunked-prefill" in values(answer)


def test_a_full_kv_cache_limits_tokens_and_seats_by_what_ran() -> None:
    answer = diagnosis_of(*SERVING, stats(100, 30, 99.5, preemptions=4))
    assert values(answer)["SLUICE_MAX_KV_TOKENS"] == "280166"
    assert values(answer)["SLUICE_MAX_IN_FLIGHT"] == "90"


def test_a_pinned_kv_cache_is_lowered_itself() -> None:
    pinned = STARTED[0].replace("'max_num_seqs'", "'kv_cache_memory_bytes': 40000000000, 'max_n'")
    answer = diagnosis_of(pinned, *SERVING[1:], *traceback(f"{RUNNER}:execute_model", error=oom()))
    assert "--gpu-memory-utilization" not in values(answer)
    assert values(answer)["--kv-cache-memory-bytes"] == "38768971776"


def test_sleep_mode_gets_no_expandable_segments() -> None:
    error = oom("2.00 GiB", unallocated="3.00 GiB", allocated="74.00 GiB")
    plain = diagnosis_of(*SERVING, *traceback(f"{RUNNER}:execute_model", error=error))
    asleep = diagnosis_of(
        STARTED[0].replace("{", "{'enable_sleep_mode': True, "),
        *SERVING[1:],
        *traceback(f"{RUNNER}:execute_model", error=error),
    )
    assert values(plain)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in values(asleep)


def test_what_is_no_lack_of_memory_gets_no_advice() -> None:
    assert diagnosis_of("RuntimeError: CUDA error: device-side assert triggered").advice == ()


def test_a_cpu_engine_is_told_how_much_of_the_hosts_ram_it_may_have() -> None:
    answer = diagnosis_of(
        *STARTED,
        "ValueError: Available memory on node 0 (10.21/12.71 GiB) on kv cache allocation is less "
        "than requested memory for kv (400.0 GiB). Decrease --kv-cache-memory-bytes",
    )
    assert first(answer) == "VLLM_CPU_KVCACHE_SPACE"
    assert values(answer)["VLLM_CPU_KVCACHE_SPACE"] == "9"


def test_a_cpu_engines_kv_cache_is_raised_where_it_was_set() -> None:
    answer = diagnosis_of(
        *STARTED,
        "(Worker pid=7) INFO 05-20 12:00:09 [w.py:260] Explicitly set (1.0/12.71) GiB for KV cache "
        "on node 0.",
        "ValueError: To serve at least one request with the model's max seq len (2000000), (1.91 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB). "
        "Based on the available memory, the estimated maximum model length is 1048448. Try",
    )
    assert values(answer)["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert "--gpu-memory-utilization" not in values(answer)
