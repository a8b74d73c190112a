from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from proxy.cli import plan_running
from proxy.cli.plan_running import read_running
from proxy.vllm.doctor.evidence import (
    EngineLife,
    Findings,
    LogFindings,
    StartUpFacts,
    StatsSummary,
)
from proxy.vllm.inspection import EngineReport, ServedModel
from proxy.vllm.launch_plan.problem import NotModelledError, PlanError

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (
    '# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size="16",'
    'num_gpu_blocks="100",gpu_memory_utilization="0.9"} 1.0\n'
)
UP = EngineReport(
    up=True,
    key_refused=False,
    reason="ok",
    version="0.32.0",
    models=(ServedModel("tiny", 2048),),
    kv_cache_tokens=1_048_576,
    max_concurrency=512.0,
)


def life(line: int, tokens: int | None) -> EngineLife:
    return EngineLife("x", line, StartUpFacts(kv_cache_tokens=tokens), StatsSummary())


def test_a_page_is_read_packed_or_not(tmp_path: Path) -> None:
    plain, packed = tmp_path / "page.txt", tmp_path / "page.gz"
    plain.write_text(PAGE)
    packed.write_bytes(gzip.compress(PAGE.encode()))
    assert read_running(str(plain), None).kv_tokens == 1600
    assert read_running(str(packed), None).flags["gpu_memory_utilization"] == "0.9"


def test_of_a_log_the_last_start_with_a_kv_cache_counts() -> None:
    lives = (life(1, 1000), life(50, 2000), life(90, None))
    engine = plan_running.engine_of(Findings(log=LogFindings(lives=lives)), "x")
    assert engine is not None
    assert engine.kv_tokens == 2000


@pytest.mark.parametrize("text", ["", "no log at all\n"])
def test_a_file_that_says_nothing_of_a_cache_is_not_enough(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.log"
    file.write_text(text)
    with pytest.raises(NotModelledError, match="says nothing of a KV cache"):
        read_running(str(file), None)


def answer_with(monkeypatch: pytest.MonkeyPatch, report: EngineReport) -> list[str]:
    asked: list[str] = []

    async def inspect(root_url: str, api_key: str | None = None) -> EngineReport:
        asked.append(f"{root_url} {api_key}")
        return report

    monkeypatch.setattr(plan_running, "inspect_engine", inspect)
    return asked


@pytest.mark.parametrize("ending", ["", "/", "/metrics", "/v1"])
def test_an_engine_is_asked_at_any_of_its_urls(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    asked = answer_with(monkeypatch, UP)
    engine = read_running(f"http://gpu:8000{ending}", "sk-x")
    assert asked == ["http://gpu:8000 sk-x"]
    assert (engine.kv_tokens, engine.max_model_len, engine.model) == (1_048_576, 2048, "tiny")


def test_an_engine_that_is_down_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, EngineReport(up=False, key_refused=False, reason="refused"))
    with pytest.raises(PlanError, match="not up: refused"):
        read_running("http://gpu:8000", None)


def test_an_engine_that_does_not_tell_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, EngineReport(up=True, key_refused=False, reason="ok"))
    with pytest.raises(NotModelledError, match="does not tell"):
        read_running("http://gpu:8000", None)


@pytest.mark.parametrize("up", [True, False])
def test_the_url_of_a_gateway_is_told_from_an_engines(
    monkeypatch: pytest.MonkeyPatch, up: bool
) -> None:
    gateway = EngineReport(up=up, key_refused=False, reason="404", is_sluice=True)
    answer_with(monkeypatch, gateway)
    with pytest.raises(PlanError, match="this is Sluice; give the URL of the engine"):
        read_running("http://gateway:8080/v1", None)


def test_a_saved_page_of_a_gateway_is_told_from_an_engines(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("# TYPE sluice_in_flight gauge\nsluice_in_flight 3.0\nsluice_queue_depth 0.0\n")
    with pytest.raises(PlanError, match="page of Sluice"):
        read_running(str(page), None)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(PlanError, match="http://"):
        read_running("http://", None)
