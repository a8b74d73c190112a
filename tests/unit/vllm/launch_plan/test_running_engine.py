from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.vllm.doctor.evidence import StartUpFacts
from proxy.vllm.launch_plan.running_engine import (
    Fit,
    RunningEngine,
    engine_of_log,
    engine_of_page,
    judge_fit,
)
from tests.support.plan_requests import TRAFFIC

LOG = StartUpFacts(
    version="0.32.0",
    flags={"max_num_seqs": "64", "gpu_memory_utilization": "0.85"},
    kv_cache_tokens=100_000,
    max_concurrency=12.2,
    max_concurrency_tokens=8192,
)
ENGINE = engine_of_log(LOG, "vllm.log")


def judge(limit: int | None, engine: RunningEngine = ENGINE, with_traffic: bool = True) -> Fit:
    return judge_fit(engine, limit, 0.9, TRAFFIC if with_traffic else None)


def test_a_log_tells_the_cache_the_length_and_the_flags() -> None:
    assert (ENGINE.kv_tokens, ENGINE.max_model_len, ENGINE.max_num_seqs) == (100_000, 8192, 64)
    assert ENGINE.full_length == 12.2


def test_a_page_tells_the_cache_and_the_length() -> None:
    page = {"kv_cache_size_tokens": "1048576", "kv_cache_max_concurrency": "512.0", "x": "y"}
    engine = engine_of_page({**page, "block_size": "128"}, "page")
    assert (engine.kv_tokens, engine.max_model_len, engine.block_tokens) == (1_048_576, 2048, 128)


def test_an_old_page_tells_blocks() -> None:
    assert engine_of_page({"num_gpu_blocks": "100", "block_size": "16"}, "page").kv_tokens == 1600


def test_a_limit_at_max_num_seqs_does_not_fit() -> None:
    fit = judge(64)
    assert fit.fits is False
    assert "not below the engine's --max-num-seqs=64" in fit.reasons[0]


def test_a_limit_above_what_the_cache_holds_does_not_fit() -> None:
    fit = judge(60, replace(ENGINE, kv_tokens=50_000))
    assert fit.fits is False
    assert "would preempt" in fit.reasons[0]
    assert fit.seats is not None
    assert judge(fit.seats, replace(ENGINE, kv_tokens=50_000)).fits is True


def test_without_lengths_it_depends_on_them() -> None:
    fit = judge(50, with_traffic=False)
    assert fit.fits is None
    assert any("--prompt-tokens" in reason for reason in fit.reasons)


def test_without_lengths_a_limit_within_full_length_requests_fits() -> None:
    assert judge(10, with_traffic=False).fits is True


def test_without_a_limit_one_is_named() -> None:
    fit = judge(None)
    assert fit.fits is None
    assert fit.seats


def test_what_the_engine_does_not_tell_is_said() -> None:
    engine = RunningEngine(source="page", kv_tokens=100_000, max_model_len=8192)
    fit = judge(10, engine)
    assert fit.fits is True
    assert any("--max-num-seqs is not told" in reason for reason in fit.reasons)


@pytest.mark.parametrize("limit", [1, 20])
def test_a_cache_of_unknown_size_decides_nothing(limit: int) -> None:
    assert judge(limit, RunningEngine(source="x", max_num_seqs=64)).fits is None


def test_a_limit_far_below_is_remarked() -> None:
    large = RunningEngine(source="x", kv_tokens=10_000_000, max_num_seqs=1024)
    assert any("far below" in reason for reason in judge(8, large).reasons)
