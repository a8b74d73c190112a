"""Which of all signs is the cause."""

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import (
    CurveFindings,
    EvidenceLine,
    Findings,
    HostKill,
    KernelFindings,
    LogFindings,
    MetricsFindings,
    Phase,
    Xid,
)
from tests.support.doctor_logs import (
    SERVING,
    SIZED,
    STARTED,
    diagnosis_of,
    findings_of,
    oom,
    stats,
    traceback,
)

LINE = EvidenceLine("dmesg", 1, "text")
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
FORWARD = "vllm/v1/worker/gpu_model_runner.py:execute_model"


def test_symptoms_above_and_below_do_not_hide_the_cause() -> None:
    answer = diagnosis_of(*SERVING, DEAD, *traceback(FORWARD, error=oom()), DEAD)
    assert (answer.oom, answer.phase) == (True, Phase.PREFILL)


def test_a_death_without_a_reason_is_open() -> None:
    answer = diagnosis_of(*SERVING, DEAD)
    assert (answer.oom, answer.phase) == (None, Phase.UNKNOWN)


def test_a_death_of_another_error_names_it() -> None:
    answer = diagnosis_of(*STARTED, "ValueError: unsupported rope scaling", DEAD)
    assert (answer.oom, answer.phase) == (False, Phase.NOT_OOM)
    assert "rope scaling" in answer.evidence[0].text


def test_an_oom_of_the_card_beats_the_kill_and_the_broken_collective_that_follow() -> None:
    nccl = "torch.distributed.DistBackendError: NCCL error"
    answer = diagnosis_of(*SERVING, *traceback(FORWARD, error=oom()), nccl, "exit code 137")
    assert answer.phase is Phase.PREFILL


def test_a_kill_alone_is_open_but_points_to_the_host() -> None:
    answer = diagnosis_of(*SERVING, "vllm-1 exited with code 137")
    assert (answer.oom, answer.phase) == (None, Phase.HOST_MEMORY)


def test_a_full_cache_with_preemptions_is_no_oom() -> None:
    answer = diagnosis_of(*SERVING, stats(90, 10, 99.9, preemptions=3))
    assert (answer.oom, answer.phase) == (False, Phase.KV_EXHAUSTION)


def test_a_good_day_is_no_oom() -> None:
    answer = diagnosis_of(*SERVING, stats(9, 0, 20.0))
    assert (answer.oom, answer.phase) == (False, Phase.NOT_OOM)


def test_an_engine_that_starts_its_web_server_is_past_what_takes_memory() -> None:
    answer = diagnosis_of(
        *SIZED, "(APIServer pid=7) INFO 05-20 12:00:41 [entry.py:140] Starting vLLM server on http"
    )
    assert (answer.oom, answer.phase) == (False, Phase.NOT_OOM)


def test_a_good_day_whose_end_is_lost_is_open() -> None:
    answer = diagnose(Findings(log=findings_of(*SERVING), cut=True, remarks=("it is cut",)))
    assert (answer.oom, answer.phase) == (None, Phase.UNKNOWN)
    assert "it is cut" in answer.notes
    broken = Findings(log=findings_of(*SERVING, oom("2.00 GiB")), cut=True)
    assert diagnose(broken).oom is True


def test_a_log_of_something_else_says_nothing() -> None:
    assert diagnosis_of("hello", "world").oom is None


def test_the_kernels_word_decides_what_the_log_leaves_open() -> None:
    kernel = KernelFindings(host_kills=(HostKill(LINE, "python3", 7),))
    answer = diagnose(Findings(log=findings_of(*SERVING), kernel=kernel))
    assert (answer.oom, answer.phase) == (False, Phase.HOST_MEMORY)


def test_an_xid_is_a_fault() -> None:
    answer = diagnose(Findings(kernel=KernelFindings(xids=(Xid(LINE, 79, "fell off the bus"),))))
    assert (answer.oom, answer.phase) == (False, Phase.NOT_OOM)


def test_a_metrics_page_or_a_recording_can_show_a_full_cache() -> None:
    page = MetricsFindings(kv_usage=0.99, preemptions=7, evidence=(LINE,))
    curve = CurveFindings(peak_kv_usage=0.99, preemptions=7)
    assert diagnose(Findings(metrics=page)).phase is Phase.KV_EXHAUSTION
    assert diagnose(Findings(curve=curve)).phase is Phase.KV_EXHAUSTION
    assert diagnose(Findings(log=findings_of(*SERVING), metrics=page)).oom is False
    assert diagnose(Findings(log=LogFindings(), metrics=MetricsFindings(kv_usage=0.2))).oom is None


def test_a_refused_setting_is_named_by_the_line_below_its_error() -> None:
    answer = diagnosis_of(
        *STARTED,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, User-specified max_model_len (400000) is greater than the derived one",
    )
    assert (answer.oom, answer.phase) == (False, Phase.NOT_OOM)
    assert [line.text.partition(" ")[0] for line in answer.evidence] == [
        "pydantic_core._pydantic_core.ValidationError:",
        "Value",
    ]


def test_a_taken_port_and_a_wrong_flag_are_named() -> None:
    taken = (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): in use"
    )
    assert "address is taken" in diagnosis_of(*SERVING, taken).cause
    flag = diagnosis_of("api_server.py: error: unrecognized arguments: --max-seqs")
    assert (flag.oom, "command line" in flag.cause) == (False, True)
