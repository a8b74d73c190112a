"""Reads the figures that tuning needs from the metrics page of Sluice itself.

Pure, and as tolerant as the reading of an engine's page: what is not told is None, never 0. Several
engines behind one gateway count together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.exposition import read_samples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.vllm.exposition import Sample

_Samples = list["Sample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayMetrics:
    """Seats, requests, and totals since the gateway's start. `retries_total` are arrivals that said
    they were retries. The engine's figures are as the gateway last saw them."""

    in_flight: float | None = None
    concurrency_limit: float | None = None
    queue_depth: float | None = None
    shed_total: float | None = None
    retries_total: float | None = None
    arrivals_total: float | None = None
    engine_running: float | None = None
    engine_waiting: float | None = None
    engine_kv_cache_usage: float | None = None


def parse_gateway_page(page: str) -> GatewayMetrics:
    """Never raises. The names are those of docs/metrics.md."""
    by_name: dict[str, _Samples] = {}
    for sample in read_samples(page, "sluice_"):
        by_name.setdefault(sample.name, []).append(sample)
    arrivals = by_name.get("sluice_arrivals_total", [])
    retries = [sample for sample in arrivals if sample.labels.get("attempt") == "retry"]
    usage = [
        s.value for s in by_name.get("sluice_engine_kv_cache_usage", []) if s.value is not None
    ]
    return GatewayMetrics(
        in_flight=_sum(by_name, "sluice_in_flight"),
        concurrency_limit=_sum(by_name, "sluice_concurrency_limit"),
        queue_depth=_sum(by_name, "sluice_queue_depth"),
        shed_total=_sum(by_name, "sluice_shed_total"),
        retries_total=_sum({"": retries}, ""),
        arrivals_total=_sum(by_name, "sluice_arrivals_total"),
        engine_running=_sum(by_name, "sluice_engine_running"),
        engine_waiting=_sum(by_name, "sluice_engine_waiting"),
        engine_kv_cache_usage=max(usage, default=None),
    )


def _sum(by_name: Mapping[str, _Samples], name: str) -> float | None:
    values = [sample.value for sample in by_name.get(name, [])]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
