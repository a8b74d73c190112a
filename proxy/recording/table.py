"""The columns of a recording: nvidia-smi's, under its own headers, and ours beside them.

One row for each sample and card, in the form of `nvidia-smi --format=csv`, so that whatever reads
that reads this. Without a card, one row for each sample, whose nvidia-smi columns say `[N/A]` as
nvidia-smi does. In our columns, what is unknown is empty.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.recording.readings import GpuReading, Reading

COLUMNS = (
    "timestamp",
    "index",
    "name",
    "memory.used [MiB]",
    "memory.total [MiB]",
    "utilization.gpu [%]",
    "unix_time_s",
    "engine.url",
    "engine.up",
    "engine.running",
    "engine.waiting",
    "engine.kv_cache_usage",
    "engine.preemptions_total",
    "engine.prompt_tokens_total",
    "engine.generation_tokens_total",
    "sluice.in_flight",
    "sluice.concurrency_limit",
    "sluice.queue_depth",
    "sluice.shed_total",
    "sluice.retries_total",
    "sluice.arrivals_total",
)
HEADER = ", ".join(COLUMNS)
_MIB = 1 << 20
_UNTOLD = "[N/A]"


def rows(reading: Reading, engine_url: str) -> Iterator[str]:
    """Without line ends. `engine_url` may hold nothing secret."""
    ours = ", ".join(_ours(reading, engine_url))
    for gpu in reading.gpus or (None,):
        yield f"{_stamp(reading.unix_time_s)}, {_card(gpu)}, {ours}"


def _stamp(unix_time_s: float) -> str:
    """Local time, as nvidia-smi writes it."""
    whole = math.floor(unix_time_s)
    stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(whole))
    return f"{stamp}.{int((unix_time_s - whole) * 1000):03d}"


def _card(gpu: GpuReading | None) -> str:
    if gpu is None:
        return ", ".join([_UNTOLD] * 5)
    load = _UNTOLD if gpu.utilization is None else f"{gpu.utilization * 100:.0f} %"
    name = (gpu.name or _UNTOLD).replace(",", " ")
    return f"{gpu.index}, {name}, {_mib(gpu.used)}, {_mib(gpu.total)}, {load}"


def _mib(size: int | None) -> str:
    return _UNTOLD if size is None else f"{size // _MIB} MiB"


def _ours(reading: Reading, engine_url: str) -> Iterator[str]:
    engine, gateway = reading.engine, reading.gateway
    yield f"{reading.unix_time_s:.3f}"
    yield engine_url.replace(",", "%2C")
    yield "" if reading.engine_up is None else str(int(reading.engine_up))
    for figure in (
        engine.running,
        engine.waiting,
        engine.kv_cache_usage,
        engine.preemptions_total,
        engine.prompt_tokens_total,
        engine.generation_tokens_total,
        gateway.in_flight,
        gateway.concurrency_limit,
        gateway.queue_depth,
        gateway.shed_total,
        gateway.retries_total,
        gateway.arrivals_total,
    ):
        yield "" if figure is None else f"{figure:.15g}"
