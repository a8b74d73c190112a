"""A metrics page, the engine's or Sluice's: what it says of the KV cache at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.vllm.doctor.evidence import EvidenceLine, MetricsFindings
from proxy.vllm.exposition import read_samples
from proxy.vllm.gateway_page import parse_gateway_page
from proxy.vllm.metrics_page import parse_metrics_page

if TYPE_CHECKING:
    from collections.abc import Iterable

_CACHE_CONFIG = "vllm:cache_config_info"
_TELLING = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:num_preemptions",
    "sluice_engine_running",
    "sluice_engine_waiting",
    "sluice_engine_kv_cache_usage",
    "sluice_in_flight",
    "sluice_concurrency_limit",
    "sluice_queue_depth",
    _CACHE_CONFIG,
}
_LONGEST_TEXT = 400
_MOST_LINES = 40


def read_page(page: str, file: str) -> MetricsFindings:
    """Never raises. What the engine says of itself goes before what Sluice says of it."""
    engine, gateway = parse_metrics_page(page), parse_gateway_page(page)
    samples = [s for s in read_samples(page, "vllm:", "sluice_") if s.name in _TELLING]
    config = next((s.labels for s in samples if s.name == _CACHE_CONFIG), {})
    return MetricsFindings(
        kv_usage=_either(engine.kv_cache_usage, gateway.engine_kv_cache_usage),
        preemptions=engine.preemptions_total,
        running=_either(engine.running, gateway.engine_running),
        waiting=_either(engine.waiting, gateway.engine_waiting),
        cache_config={name: value for name, value in config.items() if value != "None"},
        evidence=tuple(
            EvidenceLine(file, sample.line, sample.text[:_LONGEST_TEXT])
            for sample in samples[:_MOST_LINES]
        ),
    )


def merge_pages(pages: Iterable[MetricsFindings]) -> MetricsFindings | None:
    """Of several pages, the worst of each figure: two engines, or one seen twice."""
    found = list(pages)
    if not found:
        return None
    return MetricsFindings(
        kv_usage=_most(page.kv_usage for page in found),
        preemptions=_most(page.preemptions for page in found),
        running=_most(page.running for page in found),
        waiting=_most(page.waiting for page in found),
        cache_config=next((page.cache_config for page in found if page.cache_config), {}),
        evidence=tuple(line for page in found for line in page.evidence),
    )


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first


def _most(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)
