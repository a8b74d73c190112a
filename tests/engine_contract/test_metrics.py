"""The metrics page: the names, labels and movements that Sluice and its dashboards read."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.vllm.metrics_page import parse_metrics_page
from proxy.vllm.saturation import Reading, saturation_between
from tests.support.engine_process import MAX_MODEL_LEN, MODEL, wait_until
from tests.support.engine_requests import LooseRequest, completion

if TYPE_CHECKING:
    import httpx

    from proxy.admission.saturation import Saturation
    from tests.support.engine_process import EngineProcess

_ENGINE = {"engine", "model_name"}
_LABELS = {
    "vllm:num_requests_running": _ENGINE,
    "vllm:num_requests_waiting": _ENGINE,
    "vllm:num_requests_waiting_by_reason": _ENGINE | {"reason"},
    "vllm:kv_cache_usage_perc": _ENGINE,
    "vllm:num_preemptions_total": _ENGINE,
    "vllm:prompt_tokens_total": _ENGINE,
    "vllm:generation_tokens_total": _ENGINE,
    "vllm:prefix_cache_queries_total": _ENGINE,
    "vllm:prefix_cache_hits_total": _ENGINE,
    "vllm:request_success_total": _ENGINE | {"finished_reason"},
    "vllm:admission_rejections_total": {"model_name", "reason"},
    "vllm:iteration_tokens_total_count": _ENGINE,
    "vllm:time_to_first_token_seconds_count": _ENGINE,
    "vllm:inter_token_latency_seconds_count": _ENGINE,
    "vllm:inter_token_latency_seconds_sum": _ENGINE,
    "vllm:request_time_per_output_token_seconds_count": _ENGINE,
    "vllm:e2e_request_latency_seconds_count": _ENGINE,
    "vllm:request_queue_time_seconds_count": _ENGINE,
    "vllm:request_prefill_time_seconds_count": _ENGINE,
    "vllm:request_decode_time_seconds_count": _ENGINE,
    "vllm:request_inference_time_seconds_count": _ENGINE,
    "vllm:request_prompt_tokens_count": _ENGINE,
    "vllm:request_generation_tokens_count": _ENGINE,
    "vllm:request_params_n_count": _ENGINE,
    "vllm:request_params_max_tokens_count": _ENGINE,
}


def labels_on(page: str) -> dict[str, list[dict[str, str]]]:
    """The label sets of each sample, by name."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize("name", sorted(_LABELS))
def test_the_page_has_this_name_with_these_labels(engine: EngineProcess, name: str) -> None:
    samples = labels_on(engine.metrics_page())[name]
    assert all(set(labels) == _LABELS[name] for labels in samples)
    assert all(labels["model_name"] == MODEL for labels in samples)


def test_the_page_is_prometheus_text(http: httpx.Client) -> None:
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.text.endswith("\n")


def test_every_way_to_finish_is_there_from_the_start(engine: EngineProcess) -> None:
    samples = labels_on(engine.metrics_page())["vllm:request_success_total"]
    reasons = {labels["finished_reason"] for labels in samples}
    assert reasons == {"stop", "length", "abort", "error", "repetition"}


def test_the_size_of_the_cache_is_a_label(engine: EngineProcess) -> None:
    (labels,) = labels_on(engine.metrics_page())["vllm:cache_config_info"]
    tokens = int(labels["kv_cache_size_tokens"])
    assert tokens == int(labels["num_gpu_blocks"]) * int(labels["block_size"])
    assert float(labels["kv_cache_max_concurrency"]) == tokens / MAX_MODEL_LEN
    assert "model_name" not in labels


def test_no_page_tells_how_many_sequences_may_run(engine: EngineProcess) -> None:
    assert "max_num_seqs" not in engine.metrics_page()


def test_our_reading_of_an_idle_engine_is_complete(idle_engine: EngineProcess) -> None:
    metrics = parse_metrics_page(idle_engine.metrics_page())
    assert (metrics.running, metrics.waiting, metrics.kv_cache_usage) == (0, 0, 0)
    assert metrics.kv_cache_size_tokens == 1_048_576
    assert metrics.max_concurrency == 512
    assert None not in (
        metrics.preemptions_total,
        metrics.iterations_total,
        metrics.prompt_tokens_total,
        metrics.generation_tokens_total,
        metrics.tpot_sum_s,
        metrics.tpot_count,
        metrics.block_size,
    )


def test_tokens_are_counted_exactly(idle_engine: EngineProcess, http: httpx.Client) -> None:
    before = parse_metrics_page(idle_engine.metrics_page()).generation_tokens_total
    assert before is not None
    assert http.post("/v1/completions", json=completion(50, n=2)).status_code == 200

    def counted() -> bool:
        return (
            parse_metrics_page(idle_engine.metrics_page()).generation_tokens_total == before + 100
        )

    wait_until(counted, "100 more tokens on the page")


def test_two_pages_say_how_long_a_token_takes_and_that_nobody_is_preempted(
    idle_engine: EngineProcess, http: httpx.Client
) -> None:
    before = Reading(parse_metrics_page(idle_engine.metrics_page()), 0.0)
    began = time.monotonic()
    assert http.post("/v1/completions", json=completion(50)).status_code == 200
    took_s = time.monotonic() - began

    def saturation() -> Saturation:
        return saturation_between(
            before, Reading(parse_metrics_page(idle_engine.metrics_page()), 1.0)
        )

    wait_until(lambda: saturation().tpot_s is not None, "the times of the tokens on the page")
    tpot_s = saturation().tpot_s
    assert tpot_s is not None
    assert 0 < tpot_s <= took_s / 49
    assert saturation().preemptions_per_s == 0


def test_a_finished_request_is_counted_by_its_reason(
    idle_engine: EngineProcess, http: httpx.Client
) -> None:
    before = idle_engine.finished("length")
    assert http.post("/v1/completions", json=completion(3)).status_code == 200
    wait_until(lambda: idle_engine.finished("length") == before + 1, "one more of length")


def test_the_heartbeat_beats_while_there_is_work_and_rests_when_there_is_none(
    idle_engine: EngineProcess,
) -> None:
    def beats() -> float:
        return idle_engine.metric("vllm:iteration_tokens_total_count")

    resting = beats()
    assert beats() == resting
    with closing(LooseRequest(idle_engine.url, "/v1/completions", completion(1500))):
        wait_until(lambda: beats() > resting, "the first beats")
        working = beats()
        wait_until(lambda: beats() > working, "more beats")


def test_the_cache_fills_with_what_runs_and_empties_after_it(idle_engine: EngineProcess) -> None:
    def usage() -> float:
        return idle_engine.metric("vllm:kv_cache_usage_perc")

    body = completion(1500, n=4)
    with closing(LooseRequest(idle_engine.url, "/v1/completions", body)):
        wait_until(lambda: 0 < usage() < 1, "some of the cache in use")
    wait_until(lambda: usage() == 0, "an empty cache")
