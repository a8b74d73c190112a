from __future__ import annotations

import pytest

from proxy.vllm.gateway_page import GatewayMetrics, is_gateway, parse_gateway_page

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


@pytest.mark.parametrize(
    ("body", "ours"),
    [
        (PAGE.encode(), True),
        (b"# TYPE sluice_in_flight gauge\nsluice_in_flight 0\n", True),
        (b'{"error": {"message": "x", "code": "unknown_path"}}', True),
        (b'{"error": {"message": "x", "code": "invalid_api_key"}}', True),
        (b'{"error": {"message": "x", "code": 404}}', False),
        (b'{"error": "Unauthorized"}', False),
        (b'{"detail": "Not Found"}', False),
        (b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n", False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_a_gateway_is_told_by_its_page_or_its_refusal(body: bytes, ours: bool) -> None:
    assert is_gateway(body) is ours
