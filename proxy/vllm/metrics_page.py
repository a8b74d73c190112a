"""Reads the few figures that matter here from an engine's Prometheus page.

Pure and tolerant: pages of old and new vLLM versions, of engines that export only some of it, and
pages that are no such thing at all are read for what they tell. What a page does not tell is None,
never 0. Several engines behind one page (data parallel) count together: what they hold is added
up, the fullest KV cache speaks for all.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """What an engine says about itself. None: it does not tell.

    `running` and `waiting` are requests, `kv_cache_usage` goes from 0 to 1. `iterations_total`
    counts scheduler steps that brought out a token: it stands still when the engine makes no
    progress, and during a prefill in many chunks. `tpot_sum_s` and `tpot_count` are the sum, in
    seconds, and the number of the times per output token that it took. `max_concurrency` is how
    many requests of full model length the KV cache holds. Totals are counted from the engine's
    start.
    """

    running: float | None = None
    waiting: float | None = None
    kv_cache_usage: float | None = None
    preemptions_total: float | None = None
    iterations_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    tpot_sum_s: float | None = None
    tpot_count: float | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    block_size: int | None = None


_CACHE_INFO = "vllm:cache_config_info"
# By field, newest name first. `iteration_tokens_total` is a histogram in spite of its name.
_NAMES = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "preemptions_total": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "iterations_total": ("vllm:iteration_tokens_total_count",),
    "prompt_tokens_total": ("vllm:prompt_tokens_total",),
    "generation_tokens_total": ("vllm:generation_tokens_total",),
}
# Histograms of the time per output token, the best first: the second is the first's name in older
# versions, the third has one value for each request, known when it ends.
_TPOT = (
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
    "vllm:request_time_per_output_token_seconds",
)
_READ = (
    _CACHE_INFO,
    *(name for names in _NAMES.values() for name in names),
    *(f"{name}_{part}" for name in _TPOT for part in ("sum", "count")),
)

# Possessive quantifiers: a line that does not match is given up in linear time.
_QUOTED = r'"(?:[^"\\\n]|\\.)*+"'
_SAMPLE = re.compile(
    rf"^[ \t]*+({'|'.join(map(re.escape, sorted(_READ, key=len, reverse=True)))})"
    rf'(?:[ \t]*+(\{{(?:[^"}}\n]|{_QUOTED})*+\}})[ \t]*+|[ \t]++)(\S++)',
    re.MULTILINE,
)
_LABEL = re.compile(rf"([a-zA-Z_]\w*+)[ \t]*+=[ \t]*+({_QUOTED})")

_Values = dict[str, list[float | None]]


def parse_metrics_page(page: str) -> EngineMetrics:
    """Never raises. Source of the names: vLLM's v1/metrics/loggers.py.

    A last line without its newline is left out: it may have been cut in the middle of a number.
    """
    values: _Values = {}
    caches: list[dict[str, str]] = []
    for name, labels, value in _samples(page):
        if name == _CACHE_INFO:
            caches.append(labels)
        else:
            values.setdefault(name, []).append(_number(value))
    tpot_sum_s, tpot_count = _tpot(values)
    return EngineMetrics(
        running=_total(values, "running"),
        waiting=_total(values, "waiting"),
        kv_cache_usage=_fullest(values, "kv_cache_usage"),
        preemptions_total=_total(values, "preemptions_total"),
        iterations_total=_total(values, "iterations_total"),
        prompt_tokens_total=_total(values, "prompt_tokens_total"),
        generation_tokens_total=_total(values, "generation_tokens_total"),
        tpot_sum_s=tpot_sum_s,
        tpot_count=tpot_count,
        kv_cache_size_tokens=_whole(_sum(_cache_tokens(cache) for cache in caches)),
        max_concurrency=_sum(_number(cache.get("kv_cache_max_concurrency")) for cache in caches),
        block_size=_whole(_number(caches[0].get("block_size"))) if caches else None,
    )


def _samples(page: str) -> Iterator[tuple[str, dict[str, str], str]]:
    for match in _SAMPLE.finditer(page, 0, page.rfind("\n") + 1):
        name, labels, value = match.groups()
        yield name, _labels(labels) if name == _CACHE_INFO and labels else {}, value


def _labels(block: str) -> dict[str, str]:
    """Values as they stand: none of those that are read here holds an escape."""
    return {name: quoted[1:-1] for name, quoted in _LABEL.findall(block)}


def _number(text: str | None) -> float | None:
    """A finite number from 0 up; everything counted here is one. "None" and NaN are unknown."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _of(values: _Values, field: str) -> list[float | None]:
    return next((values[name] for name in _NAMES[field] if name in values), [])


def _total(values: _Values, field: str) -> float | None:
    return _sum(_of(values, field))


def _tpot(values: _Values) -> tuple[float | None, float | None]:
    """Both parts of one histogram, the first that is on the page at all, or none of it."""
    for name in _TPOT:
        counts, sums = values.get(f"{name}_count", []), values.get(f"{name}_sum", [])
        if counts:
            total_s, count = _sum(sums), _sum(counts)
            whole = len(sums) == len(counts) and total_s is not None and count is not None
            return (total_s, count) if whole else (None, None)
    return None, None


def _fullest(values: _Values, field: str) -> float | None:
    """A share above 1 is a percentage or nonsense, and not guessed at."""
    return max((x for x in _of(values, field) if x is not None and x <= 1), default=None)


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Unknown if any part is: half a sum would pass for the whole."""
    parts = list(numbers)
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    return _finite(sum(known))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _cache_tokens(cache: dict[str, str]) -> float | None:
    """Older versions tell blocks only."""
    told = _number(cache.get("kv_cache_size_tokens"))
    if told is not None:
        return told
    blocks, size = _number(cache.get("num_gpu_blocks")), _number(cache.get("block_size"))
    return None if blocks is None or size is None else _finite(blocks * size)
