from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from proxy.simulator.gpu_memory import GpuMemory
from proxy.simulator.metrics_page import metrics_page
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.server import create_app
from tests.support.simulated_server import simulated
from tests.support.virtual_time import run

LABELS = 'engine="0",model_name="simulated"'
REQUEST = {"prompt": "hello there", "max_tokens": 4, "ignore_eos": True}


def page(**options: object) -> str:
    return metrics_page(create_app(SimulatorOptions(**options)).state.service)


def test_a_prometheus_parser_reads_every_line() -> None:
    families = {family.name for family in text_string_to_metric_families(page())}
    assert {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:kv_cache_usage_perc",
        "vllm:engine_sleep_state",
        "vllm:cache_config_info",
        "vllm:num_preemptions",
        "vllm:prompt_tokens",
        "vllm:generation_tokens",
        "vllm:request_success",
        "vllm:admission_rejections",
        "vllm:iteration_tokens_total",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
    } <= families


def test_a_model_name_may_hold_anything() -> None:
    families = text_string_to_metric_families(page(served_model_name='a"b\\c\nd'))
    running = next(f for f in families if f.name == "vllm:num_requests_running")
    assert running.samples[0].labels["model_name"] == 'a"b\\c\nd'


def test_the_cache_tells_its_size_in_labels() -> None:
    memory = GpuMemory(utilization=0.9)
    text = page(kv_cache_tokens=8192, max_model_len=2048, memory=memory)
    families = text_string_to_metric_families(text)
    info = next(f for f in families if f.name == "vllm:cache_config_info").samples[0]
    assert info.value == 1.0
    assert info.labels["kv_cache_size_tokens"] == "8192"
    assert info.labels["kv_cache_max_concurrency"] == "4.0"
    assert info.labels["num_gpu_blocks"] == "512"
    assert info.labels["gpu_memory_utilization"] == "0.9"
    assert info.labels["num_cpu_blocks"] == "None"
    assert "model_name" not in info.labels


def test_counters_follow_what_the_engine_did() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            for _ in range(3):
                await server.post(b"/v1/completions", REQUEST)
            assert await server.metric(f"vllm:generation_tokens_total{{{LABELS}}}") == 12
            assert await server.metric(f"vllm:prompt_tokens_total{{{LABELS}}}") == 6
            length = f'vllm:request_success_total{{{LABELS},finished_reason="length"}}'
            assert await server.metric(length) == 3
            assert await server.metric(f"vllm:iteration_tokens_total_count{{{LABELS}}}") == 12
            bucket = f'vllm:iteration_tokens_total_bucket{{{LABELS},le="1.0"}}'
            assert await server.metric(bucket) == 9

    run(scenario())


def test_gauges_show_running_and_waiting() -> None:
    async def scenario() -> None:
        async with simulated(max_num_seqs=2) as server:
            asked = [server.start(b"/v1/completions", REQUEST) for _ in range(5)]
            await asyncio.sleep(0.005)
            assert await server.metric(f"vllm:num_requests_running{{{LABELS}}}") == 2
            assert await server.metric(f"vllm:num_requests_waiting{{{LABELS}}}") == 3
            assert await server.metric(f"vllm:kv_cache_usage_perc{{{LABELS}}}") > 0
            await asyncio.gather(*(exchange.read() for exchange in asked))
            assert await server.metric(f"vllm:kv_cache_usage_perc{{{LABELS}}}") == 0

    run(scenario())


def test_a_clients_abort_is_counted_apart_as_vllm_does_not_count_it() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(b"/v1/completions", REQUEST | {"max_tokens": 4000})
            await asyncio.sleep(1)
            exchange.disconnect()
            await asyncio.sleep(0.1)
            assert await server.metric("sluice_sim_aborted_total") == 1
            abort = f'vllm:request_success_total{{{LABELS},finished_reason="abort"}}'
            assert await server.metric(abort) == 0
            assert await server.metric(f"vllm:num_requests_running{{{LABELS}}}") == 0

    run(scenario())
