"""The phase of one failed allocation."""

import pytest

from proxy.vllm.doctor.evidence import Confidence, Phase
from tests.support.doctor_logs import (
    LOADED,
    SERVING,
    SIZED,
    STARTED,
    diagnosis_of,
    oom,
    traceback,
)

RUNNER = "vllm/v1/worker/gpu_model_runner.py"
DUMP = (
    "ERROR Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[], "
    "num_scheduled_tokens={a: %d, b: 1}, total_num_scheduled_tokens=9, scheduled_encoder_inputs={})"
)


def test_a_dummy_batch_is_the_profile_until_the_kv_cache_has_its_size() -> None:
    lines = traceback(f"{RUNNER}:_dummy_run", error=oom())
    assert diagnosis_of(*LOADED, *lines).phase is Phase.STARTUP_PROFILING
    assert diagnosis_of(*SIZED, *lines).phase is Phase.STARTUP_GRAPH_CAPTURE


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        (STARTED, Phase.STARTUP_WEIGHTS),
        (LOADED, Phase.STARTUP_PROFILING),
        (SIZED, Phase.STARTUP_GRAPH_CAPTURE),
        ((), Phase.UNKNOWN),
    ],
)
def test_without_a_traceback_the_progress_tells(lines: tuple[str, ...], phase: Phase) -> None:
    assert diagnosis_of(*lines, oom()).phase is phase


def test_a_large_request_while_serving_is_a_prefill_and_a_small_one_is_open() -> None:
    large, small = diagnosis_of(*SERVING, oom()), diagnosis_of(*SERVING, oom("20.00 MiB"))
    assert (large.phase, large.confidence) == (Phase.PREFILL, Confidence.LOW)
    assert (small.phase, small.oom) == (Phase.UNKNOWN, True)


def test_the_samplers_size_tells_without_a_traceback() -> None:
    seqs = STARTED[0].replace("256", "1024")
    answer = diagnosis_of(seqs, *LOADED[1:], oom("1.74 GiB"))
    assert answer.phase is Phase.STARTUP_WARMUP
    assert "1024 sequences" in answer.cause


@pytest.mark.parametrize(("tokens", "phase"), [(1, Phase.DECODE), (8191, Phase.PREFILL)])
def test_the_dumped_step_tells_prefill_from_decode(tokens: int, phase: Phase) -> None:
    error = traceback(f"{RUNNER}:execute_model", f"{RUNNER}:forward", error=oom("64.00 MiB"))
    assert diagnosis_of(*SERVING, DUMP % tokens, *error).phase is phase


def test_memory_of_others_beats_the_traceback() -> None:
    error = oom("500.00 MiB", "100.00 MiB", in_use="20.00 GiB", allocated="19.00 GiB")
    answer = diagnosis_of(*STARTED, *traceback(f"{RUNNER}:load_model", error=error))
    assert answer.phase is Phase.STARTUP_MEMORY_TAKEN
    assert "59.90 GiB" in answer.cause


def test_much_unused_memory_while_serving_is_fragmentation() -> None:
    error = oom("2.00 GiB", unallocated="3.00 GiB", allocated="74.00 GiB")
    answer = diagnosis_of(*SERVING, *traceback(f"{RUNNER}:execute_model", error=error))
    assert answer.phase is Phase.FRAGMENTATION


def test_much_unused_memory_at_the_start_is_still_the_start() -> None:
    error = oom("2.00 GiB", unallocated="3.00 GiB", allocated="74.00 GiB")
    answer = diagnosis_of(*STARTED, *traceback(f"{RUNNER}:load_model", error=error))
    assert answer.phase is Phase.STARTUP_WEIGHTS


def test_one_request_is_one_request() -> None:
    dump = (
        "ERROR Dumping scheduler output for model execution: SchedulerOutput("
        "num_scheduled_tokens={a: 900}, total_num_scheduled_tokens=900)"
    )
    answer = diagnosis_of(*SERVING, dump, *traceback(f"{RUNNER}:execute_model", error=oom()))
    assert "of 1 request," in answer.cause
