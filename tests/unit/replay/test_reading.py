"""The article's reading of a result, a rule a test."""

from __future__ import annotations

import pytest

from proxy.replay.block_bootstrap import Blocks, Interval
from proxy.replay.comparison import Comparison, Estimate, Judgement, Row
from proxy.replay.evidence import METRICS, Better
from proxy.replay.reading import Code, read_comparison
from proxy.replay.recording_view import Curve, RecordingView

TIGHTER = {"throughput_tokens_per_s": -0.2, "e2e_s.p95": -0.3, "ttft_s.p95": -0.4}


def row(metric_at: int, change: float | None) -> Row:
    """With an interval of a tenth of the change to either side."""
    metric = METRICS[metric_at]
    if change is None:
        return Row(metric, *(Estimate(None, None),) * 3, Judgement.UNKNOWN)
    interval = Interval(change - abs(change) / 10 - 0.001, change + abs(change) / 10 + 0.001)
    better = (change > 0) == (metric.better is Better.HIGHER)
    judgement = Judgement.BETTER if better else Judgement.WORSE
    if not change:
        judgement = Judgement.NOISE
    estimate = Estimate(1.0, interval)
    return Row(metric, estimate, estimate, Estimate(change, interval), judgement)


def comparison(
    changes: dict[str, float | None],
    *,
    shortest_run_s: float = 0.0,
    busy_blocks: int = 10,
    late_s: dict[str, float] | None = None,
) -> Comparison:
    rows = {m.name: row(i, changes.get(m.name, 0.0)) for i, m in enumerate(METRICS)}
    return Comparison(rows, Blocks(10, 6.0, shortest_run_s), busy_blocks, late_s or {})


def view(card: list[float] | None = None, kv: list[float] | None = None) -> RecordingView:
    seen = RecordingView()
    for time_s, value in enumerate(card or ()):
        seen.used_share.setdefault(0, Curve()).add(time_s, value)
    for time_s, value in enumerate(kv or ()):
        seen.kv_cache_usage.add(time_s, value)
    return seen


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, Code.WITHIN_NOISE),
        ({"goodput_per_s": 0.1}, Code.BETTER),
        ({"goodput_per_s": -0.1}, Code.WORSE),
        (TIGHTER, Code.LIMIT_TOO_TIGHT),
        ({**TIGHTER, "goodput_per_s": -0.1}, Code.LIMIT_TOO_TIGHT),
        ({**TIGHTER, "goodput_per_s": 0.1}, Code.TRADE),
        ({**TIGHTER, "throughput_tokens_per_s": -0.02}, Code.TRADE),
        ({"throughput_tokens_per_s": 0.2, "e2e_s.p50": 0.3}, Code.LIMIT_WAS_TOO_TIGHT),
        (
            {"throughput_tokens_per_s": 0.2, "e2e_s.p50": 0.3, "goodput_per_s": -0.2},
            Code.WORSE,
        ),
        # Not down: one latency better, one worse.
        ({**TIGHTER, "e2e_s.p95": 0.3, "goodput_per_s": -0.1}, Code.WORSE),
        ({"ttft_s.p50": -0.1}, Code.TRADE),
        ({"goodput_per_s": None}, Code.WITHIN_NOISE),
    ],
)
def test_latency_and_throughput_are_read_together(
    changes: dict[str, float | None], code: Code
) -> None:
    readings = read_comparison(comparison(changes))
    assert [reading.code for reading in readings] == [code]


def test_what_differs_at_the_same_goodput_is_listed() -> None:
    text = read_comparison(comparison({"ttft_s.p50": -0.1}))[0].text
    assert "first token p50 better (-10.0 %, 95 % interval -11.1 to -8.9)" in text


def test_noise_says_how_large_a_difference_may_hide_in_it() -> None:
    text = read_comparison(comparison({}))[0].text
    assert "goodput +0.0 %, 95 % interval -0.1 to +0.1" in text


def test_better_memory_with_worse_goodput_is_no_improvement() -> None:
    codes = [
        reading.code
        for reading in read_comparison(
            comparison({"goodput_per_s": -0.1}), view(kv=[0.8] * 9), view(kv=[0.5] * 9)
        )
    ]
    assert codes == [Code.WORSE, Code.NO_IMPROVEMENT]


@pytest.mark.parametrize(("goodput", "after"), [(0.0, 0.5), (0.1, 0.5), (-0.1, 0.79), (-0.1, 0.9)])
def test_otherwise_memory_is_no_matter(goodput: float, after: float) -> None:
    readings = read_comparison(
        comparison({"goodput_per_s": goodput}), view(kv=[0.8] * 9), view(kv=[after] * 9)
    )
    assert len(readings) == 1


@pytest.mark.parametrize(
    ("seen", "code", "named"),
    [
        (view(card=[0.3] * 20 + [0.99] * 5), Code.PEAKS, "GPU 0 in B"),
        (view(kv=[0.1] * 20 + [1.0] * 5), Code.PEAKS, "the KV cache in B"),
        (view(card=[0.98] * 25), Code.ON_THE_EDGE, "GPU 0 in B"),
        (view(kv=[0.97] * 25), Code.ON_THE_EDGE, "the KV cache in B"),
    ],
)
def test_memory_is_read_as_the_article_reads_it(
    seen: RecordingView, code: Code, named: str
) -> None:
    readings = read_comparison(comparison({}), view(), seen)
    assert [reading.code for reading in readings] == [Code.WITHIN_NOISE, code]
    assert named in readings[1].text
    assert readings[1].advice


def test_a_card_that_v1_has_filled_up_to_its_share_is_not_on_the_edge() -> None:
    assert len(read_comparison(comparison({}), view(card=[0.93] * 25), view())) == 1


@pytest.mark.parametrize("changes", [{}, {"ttft_s.p50": -0.1}, {"goodput_per_s": -0.3}, TIGHTER])
def test_runs_too_short_for_their_answers_have_no_other_verdict(changes: dict[str, float]) -> None:
    (reading,) = read_comparison(comparison(changes, shortest_run_s=99.2))
    assert reading.code is Code.TOO_SHORT
    assert "10 blocks of 6.0 s depend on each other" in reading.text
    assert reading.advice == "Replay for 100 s at least."


def test_a_handful_of_requests_proves_nothing() -> None:
    (reading,) = read_comparison(comparison({"ttft_s.p50": -0.1}, busy_blocks=4))
    assert reading.code is Code.TOO_SHORT
    assert "some came in 4 of 10 blocks" in reading.text


def test_a_run_whose_generator_was_late_has_no_other_verdict() -> None:
    (reading,) = read_comparison(comparison({"goodput_per_s": -0.3}, late_s={"B": 0.412}))
    assert reading.code is Code.GENERATOR_LATE
    assert "late (0.41 s in B)" in reading.text


def test_memory_is_read_of_short_runs_too_but_not_held_against_their_goodput() -> None:
    short = comparison({"goodput_per_s": -0.1}, shortest_run_s=99.0)
    readings = read_comparison(short, view(kv=[0.99] * 9), view(kv=[0.5] * 9))
    assert [reading.code for reading in readings] == [Code.TOO_SHORT, Code.ON_THE_EDGE]
