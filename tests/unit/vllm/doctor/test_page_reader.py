from __future__ import annotations

from proxy.vllm.doctor.page_reader import merge_pages, read_page

ENGINE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 64.0
vllm:num_requests_waiting{engine="0"} 12.0
vllm:kv_cache_usage_perc{engine="0"} 0.99
vllm:num_preemptions_total{engine="0"} 321.0
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",num_cpu_blocks="None"} 1.0
"""
GATEWAY = "sluice_engine_kv_cache_usage 0.5\nsluice_engine_waiting 2\nsluice_in_flight 3\n"


def test_an_engines_page_tells_its_cache_and_queue_with_lines() -> None:
    seen = read_page(ENGINE, "metrics.txt")
    assert (seen.running, seen.waiting, seen.kv_usage, seen.preemptions) == (64, 12, 0.99, 321)
    assert dict(seen.cache_config) == {"block_size": "16", "num_gpu_blocks": "1000"}
    assert [(line.file, line.line) for line in seen.evidence] == [
        ("metrics.txt", number) for number in (2, 3, 4, 5, 6)
    ]


def test_sluices_page_tells_what_it_saw_of_the_engine() -> None:
    seen = read_page(GATEWAY, "m")
    assert (seen.running, seen.waiting, seen.kv_usage, seen.preemptions) == (None, 2, 0.5, None)
    assert len(seen.evidence) == 3


def test_of_several_pages_the_worst_counts() -> None:
    merged = merge_pages([read_page(GATEWAY, "a"), read_page(ENGINE, "b")])
    assert merged is not None
    assert (merged.kv_usage, merged.waiting, len(merged.evidence)) == (0.99, 12, 8)
    assert merged.cache_config["block_size"] == "16"
    assert merge_pages([]) is None
