"""The values that advice is computed from."""

from proxy.vllm.doctor.case import Case
from proxy.vllm.doctor.evidence import Findings, MetricsFindings
from proxy.vllm.doctor.verdict import verdict_on
from tests.support.doctor_logs import SERVING, STARTED, findings_of, oom


def case_of(*lines: str) -> Case:
    findings = Findings(log=findings_of(*lines))
    return Case(verdict_on(findings), findings)


def test_utilization_falls_by_what_was_lacking() -> None:
    case = case_of(*SERVING, oom("4.00 GiB", "1.00 GiB"))
    assert case.utilization == 0.9
    assert case.lower_utilization() == "0.86"


def test_utilization_falls_by_a_step_that_matters_where_little_was_lacking() -> None:
    assert case_of(*SERVING, oom("64.00 MiB", "32.00 MiB")).lower_utilization() == "0.88"


def test_utilization_is_unknown_where_the_log_does_not_name_it() -> None:
    assert case_of(oom()).lower_utilization() is None


def test_utilization_does_not_fall_below_what_the_kv_cache_has() -> None:
    assert case_of(*SERVING, oom("60.00 GiB", "1.00 GiB")).lower_utilization() is None


def test_utilization_never_rises_above_what_the_card_has_free() -> None:
    known = case_of(
        *STARTED,
        "Free memory on device (76.0/80.0 GiB) on startup. Desired GPU memory utilization is (0.9,",
    )
    assert known.raise_utilization(1 << 30) == "0.92"
    assert known.raise_utilization(8 << 30) is None


def test_sequences_fall_to_what_the_free_memory_carries_and_at_least_to_half() -> None:
    assert case_of(*SERVING, oom("1.00 GiB", "900.00 MiB")).fewer_sequences() == 128
    assert case_of(*SERVING, oom("1.00 GiB", "256.00 MiB")).fewer_sequences() == 56


def test_a_metrics_page_fills_in_what_the_log_does_not_say() -> None:
    page = MetricsFindings(cache_config={"gpu_memory_utilization": "0.8", "block_size": "None"})
    findings = Findings(log=findings_of(oom()), metrics=page)
    case = Case(verdict_on(findings), findings)
    assert case.utilization == 0.8
    assert case.flag("block_size") is None
