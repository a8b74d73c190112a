"""The metrics page: what is read from which version, and what is left unknown."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.metrics_page import EngineMetrics, parse_metrics_page

_REAL_PAGE = (Path(__file__).parent / "pages" / "vllm-0.32.prom").read_text()
_FIELDS = [field.name for field in fields(EngineMetrics)]


def test_the_page_of_vllm_0_32_tells_everything() -> None:
    assert parse_metrics_page(_REAL_PAGE) == EngineMetrics(
        running=8,
        waiting=4,
        kv_cache_usage=0.004883408619216212,
        preemptions_total=0,
        iterations_total=667,
        prompt_tokens_total=26,
        generation_tokens_total=4909,
        tpot_sum_s=15.975957302001916,
        tpot_count=4898,
        kv_cache_size_tokens=1_048_576,
        max_concurrency=512,
        block_size=128,
    )


@pytest.mark.parametrize("page", ["", "\n", "<html>busy</html>\n", "# HELP x\nx 1\n", "vllm:\n"])
def test_what_a_page_does_not_tell_is_unknown_and_not_zero(page: str) -> None:
    assert parse_metrics_page(page) == EngineMetrics()


def test_an_idle_engine_is_at_zero_and_not_unknown() -> None:
    page = "vllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0.0\n"
    assert parse_metrics_page(page) == EngineMetrics(running=0, kv_cache_usage=0)


def test_engines_behind_one_page_are_added_up_and_the_fullest_cache_speaks() -> None:
    page = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="1",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="16",kv_cache_max_concurrency="2.5",kv_cache_size_tokens="1000"} 1
vllm:cache_config_info{block_size="16",kv_cache_max_concurrency="2.5",kv_cache_size_tokens="1000"} 1
"""
    assert parse_metrics_page(page) == EngineMetrics(
        running=7,
        waiting=2,
        kv_cache_usage=0.75,
        kv_cache_size_tokens=2000,
        max_concurrency=5,
        block_size=16,
    )


def test_half_a_sum_does_not_pass_for_the_whole() -> None:
    page = """\
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} NaN
vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000"} 1
vllm:cache_config_info{engine="1",kv_cache_size_tokens="None"} 1
"""
    assert parse_metrics_page(page) == EngineMetrics()


def test_names_of_older_versions_are_understood() -> None:
    page = """\
vllm:num_requests_running{model_name="m"} 1.0
vllm:num_requests_swapped{model_name="m"} 5.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="2048",num_cpu_blocks="None"} 1.0
"""
    assert parse_metrics_page(page) == EngineMetrics(
        running=1, kv_cache_usage=0.5, kv_cache_size_tokens=32_768, block_size=16
    )


_INTER_TOKEN = "vllm:inter_token_latency_seconds_sum 2\nvllm:inter_token_latency_seconds_count 9\n"
_PER_TOKEN = (
    "vllm:time_per_output_token_seconds_count 8\nvllm:time_per_output_token_seconds_sum 3\n"
)
_PER_REQUEST = """\
vllm:request_time_per_output_token_seconds_bucket{le="0.1"} 1
vllm:request_time_per_output_token_seconds_count 7
vllm:request_time_per_output_token_seconds_sum 4
"""


@pytest.mark.parametrize(
    ("page", "read"),
    [
        (_PER_REQUEST + _PER_TOKEN + _INTER_TOKEN, (2, 9)),
        (_PER_REQUEST + _PER_TOKEN, (3, 8)),
        (_PER_REQUEST, (4, 7)),
        ("", (None, None)),
    ],
)
def test_the_time_per_output_token_goes_by_several_names(
    page: str, read: tuple[float | None, float | None]
) -> None:
    metrics = parse_metrics_page(page)
    assert (metrics.tpot_sum_s, metrics.tpot_count) == read


@pytest.mark.parametrize(
    "page",
    [
        "vllm:inter_token_latency_seconds_count 9\n",
        "vllm:inter_token_latency_seconds_sum 9\n",
        _INTER_TOKEN.replace("2", "NaN"),
        _INTER_TOKEN + _INTER_TOKEN.splitlines(keepends=True)[1],
    ],
)
def test_a_sum_and_a_count_that_do_not_belong_together_are_not_read(page: str) -> None:
    metrics = parse_metrics_page(page)
    assert (metrics.tpot_sum_s, metrics.tpot_count) == (None, None)


def test_a_page_with_old_and_new_names_is_read_by_the_new_ones() -> None:
    page = "vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.1\n"
    assert parse_metrics_page(page).kv_cache_usage == 0.1


def test_names_that_only_begin_alike_are_not_mistaken() -> None:
    page = """\
vllm:num_requests_waiting_by_reason{reason="capacity"} 7
vllm:num_preemptions_created 1.79e+09
vllm:iteration_tokens_total_sum 4935
vllm:iteration_tokens_total_created 1.79e+09
my_vllm:num_requests_running 9
"""
    assert parse_metrics_page(page) == EngineMetrics()


@pytest.mark.parametrize(
    ("line", "running"),
    [
        ("vllm:num_requests_running 8", 8),
        ("vllm:num_requests_running\t8.0", 8),
        ("  vllm:num_requests_running 8", 8),
        ("vllm:num_requests_running {} 8", 8),
        ("vllm:num_requests_running{}8", 8),
        ("vllm:num_requests_running 8 1796100047062", 8),
        ("vllm:num_requests_running 8\r", 8),
        ("vllm:num_requests_running 1.2e+01", 12),
        ('vllm:num_requests_running{model_name="m",engine="0"} 8', 8),
        ('vllm:num_requests_running{model_name="a}b {c",} 8', 8),
        (r'vllm:num_requests_running{model_name="a\"} 9\\"} 8', 8),
        ('vllm:num_requests_running{model_name="模型"} 8', 8),
        ("vllm:num_requests_running NaN", None),
        ("vllm:num_requests_running +Inf", None),
        ("vllm:num_requests_running 1e999", None),
        ("vllm:num_requests_running -1", None),
        ("vllm:num_requests_running eight", None),
        ("vllm:num_requests_running", None),
        ('vllm:num_requests_running{model_name="m} 8', None),
        ("#vllm:num_requests_running 8", None),
    ],
)
def test_samples_are_read_as_prometheus_reads_them(line: str, running: float | None) -> None:
    assert parse_metrics_page(f"{line}\n").running == running


@pytest.mark.parametrize("share", ["1.01", "42", "NaN", "-0.1"])
def test_a_cache_usage_that_is_no_share_is_unknown(share: str) -> None:
    assert parse_metrics_page(f"vllm:kv_cache_usage_perc {share}\n").kv_cache_usage is None


def test_numbers_too_large_to_add_up_are_unknown() -> None:
    page = """\
vllm:generation_tokens_total{engine="0"} 1e308
vllm:generation_tokens_total{engine="1"} 1e308
vllm:cache_config_info{num_gpu_blocks="1e200",block_size="1e200"} 1
"""
    metrics = parse_metrics_page(page)
    assert (metrics.generation_tokens_total, metrics.kv_cache_size_tokens) == (None, None)


def test_a_line_that_was_cut_off_is_not_read() -> None:
    page = "vllm:num_requests_waiting 0\nvllm:num_requests_running 12"
    assert parse_metrics_page(page) == EngineMetrics(waiting=0)


@given(st.integers(0, len(_REAL_PAGE)))
def test_a_truncated_page_tells_less_but_nothing_else(length: int) -> None:
    whole, cut = parse_metrics_page(_REAL_PAGE), parse_metrics_page(_REAL_PAGE[:length])
    for field in _FIELDS:
        assert getattr(cut, field) in (None, getattr(whole, field))


_PIECES = st.sampled_from(
    [
        *("vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:cache_config_info"),
        *("{", "}", '"', "\\", "=", ",", " ", "\n", "\t", "#", "engine", "kv_cache_size_tokens"),
        *("1", "1e308", "1e999", "-", "NaN", "None", "0x1", "1_0", "\x00", "é", "\u2028"),
    ]
)


@given(st.lists(_PIECES | st.text(max_size=5), max_size=60).map("".join))
def test_no_page_is_too_strange_to_read(page: str) -> None:
    metrics = parse_metrics_page(page)
    for field in _FIELDS:
        value = getattr(metrics, field)
        assert value is None or 0 <= value < float("inf")
    assert metrics.kv_cache_usage is None or metrics.kv_cache_usage <= 1
