"""What would confirm an answer, and what is worth knowing beside it."""

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import CurveFindings, Findings, Pattern
from tests.support.doctor_logs import (
    SERVING,
    diagnosis_of,
    findings_of,
    oom,
    stats,
    traceback,
)

FORWARD = "vllm/v1/worker/gpu_model_runner.py:execute_model"


def test_the_v1_engine_does_not_grow_in_decode() -> None:
    notes = " ".join(diagnosis_of(*SERVING, *traceback(FORWARD, error=oom())).notes)
    assert "decode does not make memory grow" in notes
    assert "chunked prefill is on by default" in notes


def test_more_free_than_asked_for_is_explained() -> None:
    notes = diagnosis_of(*SERVING, oom("1.00 GiB", "2.00 GiB")).notes
    assert any("no sign of fragmentation" in note for note in notes)


def test_a_later_good_start_and_the_number_of_bad_ones_are_told() -> None:
    notes = diagnosis_of(*SERVING, oom(), *SERVING, oom(), *SERVING, stats(1, 0, 1.0)).notes
    assert any("3 starts of the engine, 2 of them" in note for note in notes)
    assert any("served" in note for note in notes)


def test_waiting_with_a_half_empty_cache_is_not_memory() -> None:
    notes = diagnosis_of(*SERVING, stats(256, 40, 30.0)).notes
    assert any("not memory" in note for note in notes)


def test_who_has_given_a_curve_is_not_told_to_record_it() -> None:
    log = findings_of(*SERVING, *traceback(FORWARD, error=oom()))
    told = {
        pattern: " ".join(diagnose(Findings(log=log, curve=CurveFindings(pattern=pattern))).confirm)
        for pattern in (Pattern.TRANSIENT, Pattern.UNKNOWN)
    }
    assert "record another memory curve" in told[Pattern.TRANSIENT]
    assert "record the memory curve" not in told[Pattern.TRANSIENT]
    assert "record the memory curve" in told[Pattern.UNKNOWN], "it was too short to tell"
    assert "record the memory curve" in " ".join(diagnose(Findings(log=log)).confirm)


def test_the_curve_is_read_for_what_fails_while_serving() -> None:
    for pattern, word in ((Pattern.TRANSIENT, "spike"), (Pattern.STEADY, "steady")):
        log = findings_of(*SERVING, *traceback(FORWARD, error=oom()))
        answer = diagnose(Findings(log=log, curve=CurveFindings(pattern=pattern)))
        assert answer.pattern is pattern
        assert any(word in note for note in answer.notes)


def test_an_unknown_phase_asks_for_what_is_missing() -> None:
    assert any("traceback" in ask for ask in diagnosis_of(oom()).confirm)


ALIVE = "ends while the engine served"


def test_a_log_without_a_farewell_cannot_tell_a_kill_from_a_good_day() -> None:
    assert any(ALIVE in note for note in diagnosis_of(*SERVING).notes)
    told = diagnosis_of(*SERVING, "INFO:     Shutting down", "INFO:     Finished server process")
    assert not any(ALIVE in note for note in told.notes)
    died = diagnosis_of(*SERVING, *traceback(FORWARD, error=oom()))
    assert not any(ALIVE in note for note in died.notes)
