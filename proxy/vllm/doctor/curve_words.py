"""What a card's memory did, in one sentence for a person who is tired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.vllm.doctor.sizes import readable
from proxy.vllm.memory_curve.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.memory_curve.lives import Life
    from proxy.vllm.memory_curve.series import MemorySeries
    from proxy.vllm.memory_curve.shape import Verdict

_MIB = 1 << 20
_EDGE = 0.97
# What nvidia-smi calls the total of common cards, in MiB.
_CARDS_MIB = (
    *(8192, 10240, 11264, 12288, 15360, 16384, 20475, 23028, 23034, 24564, 24576, 32607, 32768),
    *(40960, 46068, 49140, 49152, 65536, 81559, 81920, 95830, 97887, 143771, 183359, 196592),
)


def in_words(
    gpu: int, series: MemorySeries, verdicts: Sequence[tuple[Life, Verdict]], verdict: Verdict
) -> str:
    """`verdict` is of the life that tells most, one of `verdicts`."""
    name = f"GPU {gpu}" + (f" ({series.name})" if series.name else "")
    said = f"{name}: {_SENTENCES[verdict.shape](verdict)}"
    return said + _room(series, verdict) + _ends(verdicts)


def span(seconds: float) -> str:
    """With two digits or so."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _spike(v: Verdict) -> str:
    times = "a peak" if v.spikes == 1 else f"{v.spikes} peaks"
    lasted = f", at most {span(v.longest_s)} long," if v.longest_s else ""
    return (
        f"{times} over a level of {readable(v.base)}{lasted} up to {readable(v.top.high)}, "
        "and back: transient"
    )


def _climb(v: Verdict) -> str:
    rate = v.rise / v.duration_s * 3600 if v.duration_s else 0.0
    return (
        f"climbed by {readable(v.rise)} in {span(v.duration_s)}, from {readable(v.base)}, "
        f"{readable(rate)} an hour: steady"
    )


def _late_jump(v: Verdict) -> str:
    return f"jumped from {readable(v.base)} to {readable(v.top.high)} just before it was given back"


def _step(v: Verdict) -> str:
    return (
        f"rose from {readable(v.base)} to {readable(v.top.high)} and stayed there: PyTorch "
        "keeps what a burst once took, so the curve cannot say how long it was needed"
    )


def _flat(v: Verdict) -> str:
    return f"flat at {readable(v.base)}: neither a peak nor a climb"


def _flat_high(v: Verdict) -> str:
    return f"always full, at {readable(v.top.high)}: on the edge, any peak is one too many"


def _start_up(v: Verdict) -> str:
    return f"was still loading, up to {readable(v.top.high)}, and never came to rest"


def _too_short(v: Verdict) -> str:
    return f"too few samples to tell anything but the peak, {readable(v.top.high)}"


_SENTENCES = {
    Shape.SPIKE: _spike,
    Shape.CLIMB: _climb,
    Shape.LATE_JUMP: _late_jump,
    Shape.STEP: _step,
    Shape.FLAT: _flat,
    Shape.FLAT_HIGH: _flat_high,
    Shape.START_UP: _start_up,
    Shape.TOO_SHORT: _too_short,
}


def _room(series: MemorySeries, verdict: Verdict) -> str:
    peak = series.peak or 0
    if series.total:
        return f" (peak {peak / series.total:.1%} of {readable(series.total)})"
    likely = next((mib for mib in _CARDS_MIB if _EDGE * mib <= peak / _MIB <= mib), None)
    if likely and verdict.shape is Shape.FLAT:
        return f" (on the edge, if the card has {likely:,} MiB; record memory.total to be sure)"
    return ""


def _ends(verdicts: Sequence[tuple[Life, Verdict]]) -> str:
    ends = sum(life.ended for life, _ in verdicts)
    if not ends:
        return ""
    return "; the memory was given back " + ("once" if ends == 1 else f"{ends} times")
