"""What a comparison means: the article's reading of latency, throughput and memory, as rules.

Memory is read twice, for two engines: as the share of the card in use, and as the share of the KV
cache, which vLLM V1 takes whole at the start, so that its card looks full even when it is idle.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from proxy.replay.comparison import Judgement
from proxy.replay.evidence import GOODPUT, METRICS, THROUGHPUT, Unit
from proxy.replay.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.replay.comparison import Comparison
    from proxy.replay.recording_view import RecordingView

_LATENCIES = ("ttft_s.p95", "e2e_s.p50", "e2e_s.p95")
_CLEARLY = 0.05
_FULL, _IDLE, _CARD_EDGE, _KV_EDGE = 0.95, 0.6, 0.97, 0.95
_LESS_CARD, _LESS_KV = 0.02, 0.05


class Code(enum.StrEnum):
    """A closed set. The verdict is one of the first eight; the others may stand beside it."""

    GENERATOR_LATE = "generator_late"
    TOO_SHORT = "run_too_short"
    BETTER = "better"
    WORSE = "worse"
    WITHIN_NOISE = "within_noise"
    TRADE = "trade"
    LIMIT_TOO_TIGHT = "limit_too_tight"
    LIMIT_WAS_TOO_TIGHT = "limit_was_too_tight"
    NO_IMPROVEMENT = "memory_better_goodput_worse"
    PEAKS = "peaks_need_work"
    ON_THE_EDGE = "on_the_edge"


@dataclass(frozen=True, slots=True)
class Reading:
    """`text` says what was seen, `advice` what to do about it; both are whole sentences."""

    code: Code
    text: str
    advice: str = ""


def read_comparison(
    comparison: Comparison,
    a: RecordingView | None = None,
    b: RecordingView | None = None,
) -> list[Reading]:
    """The verdict first, then what else is to be seen. Of runs that cannot be trusted that is the
    verdict: what their figures seem to say is left to the table."""
    doubts = list(_doubts(comparison))
    readings = doubts or [_verdict(comparison)]
    if not doubts and a is not None and b is not None:
        readings += _memory_alone(comparison, a, b)
    for name, view in (("A", a), ("B", b)):
        if view is not None:
            readings += _memory_of(name, view)
    return readings


def _doubts(c: Comparison) -> Iterator[Reading]:
    if c.late_s:
        late = " and ".join(f"{late_s:.2f} s in {name}" for name, late_s in c.late_s.items())
        yield Reading(
            Code.GENERATOR_LATE,
            f"The load generator was late ({late}): that measured the generator, not the engine.",
            "Give sluice replay a core of its own, or lower the rate.",
        )
    if c.is_too_short:
        yield _too_short(c)


def _too_short(c: Comparison) -> Reading:
    seen = f"The change of goodput ({_changed(c, GOODPUT)}) may be chance."
    blocks = c.blocks
    if not blocks.long_enough:
        return Reading(
            Code.TOO_SHORT,
            f"The runs are too short to judge for answers that take so long: {blocks.count} blocks "
            f"of {blocks.length_s:.1f} s depend on each other. {seen}",
            f"Replay for {math.ceil(blocks.shortest_run_s)} s at least.",
        )
    return Reading(
        Code.TOO_SHORT,
        f"The runs have too few requests to judge: some came in {c.busy_blocks} of "
        f"{blocks.count} blocks of {blocks.length_s:.1f} s only. {seen}",
        "Replay for longer, or at a higher rate.",
    )


def _verdict(c: Comparison) -> Reading:
    goodput, throughput = c.judged(GOODPUT), c.judged(THROUGHPUT)
    latency = _latency(c)
    clearly = abs(c.change(THROUGHPUT)) >= _CLEARLY
    if clearly and latency is Judgement.BETTER and throughput is Judgement.WORSE:
        return _too_tight(c, goodput)
    rose = clearly and throughput is Judgement.BETTER and latency is Judgement.WORSE
    if rose and goodput is not Judgement.WORSE:
        return _was_too_tight(c)
    if goodput is Judgement.BETTER:
        return Reading(Code.BETTER, f"Goodput is {_changed(c, GOODPUT)} in B.")
    if goodput is Judgement.WORSE:
        return Reading(Code.WORSE, f"Goodput is {_changed(c, GOODPUT)} in B.")
    return _same_goodput(c)


def _latency(c: Comparison) -> Judgement:
    """One way only if none of its figures goes the other way."""
    judged = {c.judged(name) for name in _LATENCIES}
    for one, other in (
        (Judgement.BETTER, Judgement.WORSE),
        (Judgement.WORSE, Judgement.BETTER),
    ):
        if one in judged and other not in judged:
            return one
    return Judgement.NOISE


def _too_tight(c: Comparison, goodput: Judgement) -> Reading:
    seen = f"Latency is down in B, and throughput clearly lower ({_changed(c, THROUGHPUT)})"
    if goodput is Judgement.BETTER:
        return Reading(
            Code.TRADE,
            f"{seen}, yet more answers met the objective ({_changed(c, GOODPUT)}).",
            "B serves this objective better; a limit between the two may keep more throughput: "
            "sluice tune.",
        )
    return Reading(
        Code.LIMIT_TOO_TIGHT,
        f"{seen}: the concurrency limit of B is too tight.",
        "Raise SLUICE_MAX_IN_FLIGHT, and --max-num-seqs with it, as far as the objective allows; "
        "sluice tune finds how far.",
    )


def _was_too_tight(c: Comparison) -> Reading:
    return Reading(
        Code.LIMIT_WAS_TOO_TIGHT,
        f"Throughput is clearly higher in B ({_changed(c, THROUGHPUT)}) and latency is up, while "
        "goodput did not fall: the concurrency limit of A was too tight.",
        "Stay with B if its latency serves your users.",
    )


def _same_goodput(c: Comparison) -> Reading:
    differ = [
        f"{m.label} {c.judged(m.name)} ({_changed(c, m.name)})"
        for m in METRICS
        if c.judged(m.name) in (Judgement.BETTER, Judgement.WORSE)
    ]
    if not differ:
        return Reading(
            Code.WITHIN_NOISE,
            f"All differences are within noise: goodput {_changed(c, GOODPUT)}.",
            "To tell a smaller difference, replay for longer.",
        )
    return Reading(
        Code.TRADE, f"Goodput is the same within noise. What differs in B: {', '.join(differ)}."
    )


def _memory_alone(c: Comparison, a: RecordingView, b: RecordingView) -> Iterator[Reading]:
    less = [
        f"{what} {before:.0%} to {after:.0%}"
        for what, least, before, after in _memory_changes(a, b)
        if before - after >= least
    ]
    if less and c.judged(GOODPUT) is Judgement.WORSE:
        yield Reading(
            Code.NO_IMPROVEMENT,
            f"Memory looks better in B ({', '.join(less)}), but goodput is {_changed(c, GOODPUT)}: "
            "that is no improvement.",
            "Judge memory, throughput and latency together, never memory alone.",
        )


def _memory_changes(
    a: RecordingView, b: RecordingView
) -> Iterator[tuple[str, float, float, float]]:
    for gpu in sorted(a.used_share.keys() & b.used_share.keys()):
        before, after = (fmean(view.used_share[gpu].values) for view in (a, b))
        yield f"GPU {gpu}", _LESS_CARD, before, after
    if a.kv_cache_usage.values and b.kv_cache_usage.values:
        before, after = (fmean(view.kv_cache_usage.values) for view in (a, b))
        yield "KV cache", _LESS_KV, before, after


def _memory_of(name: str, view: RecordingView) -> Iterator[Reading]:
    curves = [(f"GPU {gpu}", curve.values, _CARD_EDGE) for gpu, curve in view.used_share.items()]
    curves.append(("the KV cache", view.kv_cache_usage.values, _KV_EDGE))
    for what, values, edge in curves:
        if reading := _level(f"{what} in {name}", values, edge):
            yield reading


def _level(what: str, values: Sequence[float], edge: float) -> Reading | None:
    ordered = sorted(values)
    low, high = percentile(ordered, 10), percentile(ordered, 99)
    if low is None or high is None:
        return None
    if low >= edge:
        return Reading(
            Code.ON_THE_EDGE,
            f"Memory of {what} is always high ({low:.0%} and more) without an OOM: on the edge.",
            "Keep a margin: lower --gpu-memory-utilization or --max-num-seqs.",
        )
    if low <= _IDLE and high >= _FULL:
        return Reading(
            Code.PEAKS,
            f"Memory of {what} is low when idle ({low:.0%}) and full in a burst ({high:.0%}): "
            "peaks need work.",
            "Lower SLUICE_MAX_IN_FLIGHT or set SLUICE_MAX_KV_TOKENS=auto; let bursts queue.",
        )
    return None


def _changed(c: Comparison, name: str) -> str:
    row = c.rows[name]
    points = " points" if row.metric.unit is Unit.SHARE else " %"
    if row.change.value is None:
        return "unknown"
    text = f"{row.change.value * 100:+.1f}{points}"
    if row.change.interval is None:
        return text
    low, high = row.change.interval.low * 100, row.change.interval.high * 100
    return f"{text}, 95 % interval {low:+.1f} to {high:+.1f}"
