"""The engine's periodic lines, V0's and V1's: how many run and wait, how full the KV cache is.

They are the only relevant lines that come by the million, so they are read as bytes.
"""

import re
from dataclasses import dataclass, replace

from proxy.vllm.doctor.evidence import EvidenceLine, StatsSummary

NEEDLE = b"KV cache "  # usage, size, space
_STATS = re.compile(
    rb"(?:prompt throughput: ([\d.]+) tokens/s.*?)?Running: (\d+) reqs?,(?: Swapped: (\d+) reqs?,)?"
    rb" (?:Waiting|Pending): (\d+) reqs?(?:.*?Preemptions: (\d+))?.*?KV cache usage: ([\d.]+)%"
)


@dataclass(frozen=True, slots=True)
class StatsLine:
    prompt_tokens_per_s: float | None
    running: int
    swapped: int | None
    waiting: int
    preemptions: int
    kv_usage: float


def read_stats(line: bytes) -> StatsLine | None:
    """None when the line is none of them."""
    found = _STATS.search(line)
    if found is None:
        return None
    prompt, running, swapped, waiting, preemptions, usage = found.groups()
    return StatsLine(
        prompt_tokens_per_s=float(prompt) if prompt else None,
        running=int(running),
        swapped=int(swapped) if swapped else None,
        waiting=int(waiting),
        preemptions=int(preemptions or 0),
        kv_usage=float(usage) / 100,
    )


def adds_up(summary: StatsSummary, line: StatsLine, at: EvidenceLine | None) -> StatsSummary:
    """The summary with one line more; `at` is kept when the line is the fullest so far."""
    fullest = summary.peak_kv_usage is None or line.kv_usage > summary.peak_kv_usage
    return replace(
        summary,
        lines=summary.lines + 1,
        peak_running=max(summary.peak_running or 0, line.running),
        peak_waiting=max(summary.peak_waiting or 0, line.waiting),
        last_running=line.running,
        last_waiting=line.waiting,
        peak_kv_usage=line.kv_usage if fullest else summary.peak_kv_usage,
        last_kv_usage=line.kv_usage,
        preemptions=(summary.preemptions or 0) + line.preemptions,
        prompt_tokens_per_s=line.prompt_tokens_per_s,
        peak_line=at if fullest and at else summary.peak_line,
    )
