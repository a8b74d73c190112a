"""The text of /metrics: vLLM's names and labels, and one of our own.

vLLM 0.32 never counts a request that its client gave up in
`request_success_total{finished_reason="abort"}` (seen on a running server: the frontend forgets the
request before the engine could report it). Neither does this page; `sluice_sim_aborted_total` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.simulator.sequence import FinishReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.simulator.counters import EngineCounters, Histogram
    from proxy.simulator.service import Service

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def metrics_page(service: Service) -> str:
    engine = service.engine
    labels = f'engine="0",model_name="{_escaped(service.model)}"'
    lines = [
        *_gauges(service, labels),
        *_counters(service, labels),
        *_histograms(engine.counters, labels),
        *_cache_config(service),
        "# TYPE sluice_sim_aborted_total counter",
        f"sluice_sim_aborted_total {engine.counters.finished[FinishReason.ABORT]}",
    ]
    return "\n".join(lines) + "\n"


def _gauges(service: Service, labels: str) -> Iterator[str]:
    now = service.engine.published()
    yield from _family("num_requests_running", "gauge", [(labels, now.running)])
    yield from _family("num_requests_waiting", "gauge", [(labels, now.waiting)])
    reasons = [
        (f'{labels},reason="capacity"', now.waiting),
        (f'{labels},reason="deferred"', 0),
    ]
    yield from _family("num_requests_waiting_by_reason", "gauge", reasons)
    states = ("awake", "weights_offloaded", "discard_all")
    sleep = [(f'{labels},sleep_state="{state}"', int(state == "awake")) for state in states]
    yield from _family("engine_sleep_state", "gauge", sleep)
    yield from _family("kv_cache_usage_perc", "gauge", [(labels, now.kv_cache_usage)])


def _counters(service: Service, labels: str) -> Iterator[str]:
    counters = service.engine.counters
    for name, value in (
        ("prefix_cache_queries", 0),
        ("prefix_cache_hits", 0),
        ("num_preemptions", counters.preemptions),
        ("prompt_tokens", counters.prompt_tokens),
        ("generation_tokens", counters.generation_tokens),
    ):
        yield from _family(f"{name}_total", "counter", [(labels, value)])
    finished = [
        (f'{labels},finished_reason="{reason.value}"', _reported(reason, counters))
        for reason in FinishReason
    ]
    yield from _family("request_success_total", "counter", finished)
    model = f'model_name="{_escaped(service.model)}"'
    rejections = [
        (f'{model},reason="max_num_queued_reqs"', service.engine.rejections),
        (f'{model},reason="max_num_queued_tokens"', 0),
    ]
    yield from _family("admission_rejections_total", "counter", rejections)


def _reported(reason: FinishReason, counters: EngineCounters) -> int:
    return 0 if reason is FinishReason.ABORT else counters.finished[reason]


def _histograms(counters: EngineCounters, labels: str) -> Iterator[str]:
    for name, histogram in (
        ("iteration_tokens_total", counters.iteration_tokens),
        ("time_to_first_token_seconds", counters.time_to_first_token),
        ("inter_token_latency_seconds", counters.inter_token_latency),
        ("request_time_per_output_token_seconds", counters.time_per_output_token),
        ("e2e_request_latency_seconds", counters.e2e_latency),
        ("request_queue_time_seconds", counters.queue_time),
        ("request_inference_time_seconds", counters.inference_time),
        ("request_prefill_time_seconds", counters.prefill_time),
        ("request_decode_time_seconds", counters.decode_time),
        ("request_prompt_tokens", counters.request_prompt_tokens),
        ("request_generation_tokens", counters.request_generation_tokens),
        ("request_params_max_tokens", counters.request_max_tokens),
        ("request_params_n", counters.request_n),
        ("request_num_preemptions", counters.request_preemptions),
    ):
        yield from _histogram(name, labels, histogram)


def _histogram(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    yield f"# TYPE vllm:{name} histogram"
    total = 0
    bounds = [*(str(float(bound)) for bound in histogram.buckets), "+Inf"]
    for bound, observed in zip(bounds, histogram.counts, strict=True):
        total += observed
        yield f'vllm:{name}_bucket{{{labels},le="{bound}"}} {total}'
    yield f"vllm:{name}_count{{{labels}}} {histogram.count}"
    yield f"vllm:{name}_sum{{{labels}}} {histogram.sum}"


def _cache_config(service: Service) -> Iterator[str]:
    engine = service.options.engine_options()
    config = {
        "block_size": engine.block_size,
        "cache_dtype": "auto",
        "enable_prefix_caching": False,
        "engine": 0,
        "gpu_memory_utilization": engine.memory.utilization,
        "kv_cache_max_concurrency": engine.kv_cache_tokens / engine.max_model_len,
        "kv_cache_memory_bytes": None,
        "kv_cache_size_tokens": engine.kv_cache_tokens,
        "num_cpu_blocks": None,
        "num_gpu_blocks": engine.num_blocks,
        "num_gpu_blocks_override": None,
        "sliding_window": None,
    }
    labels = ",".join(f'{name}="{value}"' for name, value in config.items())
    yield from _family("cache_config_info", "gauge", [(labels, 1)])


def _family(name: str, kind: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# TYPE vllm:{name} {kind}"
    for labels, value in samples:
        yield f"vllm:{name}{{{labels}}} {float(value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
