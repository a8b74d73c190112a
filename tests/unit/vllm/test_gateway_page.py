from __future__ import annotations

from proxy.vllm.gateway_page import GatewayMetrics, parse_gateway_page

PAGE = """\
sluice_in_flight{upstream="http://a"} 5.0
sluice_in_flight{upstream="http://b"} 7.0
sluice_concurrency_limit{upstream="http://a"} 8.0
sluice_queue_depth 3.0
sluice_shed_total{reason="queue_full"} 10.0
sluice_shed_total{reason="queue_timeout"} 5.0
sluice_arrivals_total{attempt="first"} 90.0
sluice_arrivals_total{attempt="retry"} 10.0
sluice_engine_running{upstream="http://a"} 4.0
sluice_engine_kv_cache_usage{upstream="http://a"} 0.4
sluice_engine_kv_cache_usage{upstream="http://b"} 0.9
"""


def test_engines_behind_one_gateway_count_together() -> None:
    assert parse_gateway_page(PAGE) == GatewayMetrics(
        in_flight=12.0,
        concurrency_limit=8.0,
        queue_depth=3.0,
        shed_total=15.0,
        retries_total=10.0,
        arrivals_total=100.0,
        engine_running=4.0,
        engine_waiting=None,
        engine_kv_cache_usage=0.9,
    )


def test_another_page_tells_nothing() -> None:
    assert parse_gateway_page("<html>\n") == GatewayMetrics()
