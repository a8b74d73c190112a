from __future__ import annotations

from proxy.vllm.doctor.recorded_figures import RecordedFigures
from proxy.vllm.memory_curve.reader import MemorySample


def figures(*rows: dict[str, float]) -> RecordedFigures:
    made = RecordedFigures()
    for line, extra in enumerate(rows, start=2):
        made.add(MemorySample(line=line, text=f"row {line}", at_s=float(line), gpu=0, extra=extra))
    return made


def test_gauges_are_remembered_at_their_peak() -> None:
    seen = figures({"engine.kv_cache_usage": 0.5}, {"engine.kv_cache_usage": 0.97}, {})
    assert seen.peaks == {"engine.kv_cache_usage": 0.97}
    assert [(e.line, e.text) for e in seen.evidence("r.csv")] == [(3, "row 3")]


def test_a_counter_that_falls_back_began_anew() -> None:
    name = "engine.preemptions_total"
    seen = figures({name: 10.0}, {name: 15.0}, {}, {name: 2.0}, {name: 2.0})
    assert seen.gained == {name: 7.0}
    assert [e.line for e in seen.evidence("r.csv")] == [5]


def test_an_engine_that_goes_away_and_comes_back_was_restarted() -> None:
    seen = figures(*({"engine.up": up} for up in (0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0)))
    assert (seen.went_away, seen.restarts) == (2, 1)


def test_what_was_never_told_is_not_0() -> None:
    seen = figures({}, {})
    assert (seen.peaks, seen.gained, seen.evidence("r.csv")) == ({}, {}, [])
