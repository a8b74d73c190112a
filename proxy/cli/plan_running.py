"""`sluice plan --from`: a start-up log, a metrics page, or the URL of an engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.upstream.address import UpstreamAddress
from proxy.vllm.doctor.blocks import Blocks
from proxy.vllm.doctor.intake import Intake
from proxy.vllm.inspection import inspect_engine
from proxy.vllm.launch_plan.problem import NotModelledError, PlanError
from proxy.vllm.launch_plan.running_engine import RunningEngine, engine_of_log, engine_of_page
from proxy.vllm.served_models import longest_model_len

if TYPE_CHECKING:
    from proxy.vllm.doctor.evidence import Findings

_PATHS = ("/metrics", "/v1/models", "/health")


def read_running(source: str, api_key: str | None) -> RunningEngine:
    """Raises PlanError when the source cannot be read, NotModelledError when it tells nothing."""
    if source.startswith(("http://", "https://")):
        return _engine_at(source, api_key)
    return _engine_in(Path(source))


def _engine_in(path: Path) -> RunningEngine:
    intake = Intake()
    intake.begin(str(path))
    try:
        with path.open("rb") as file:
            for block in Blocks(file):
                intake.feed(block)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror or error}") from None
    problem = intake.end().problem
    if problem is not None:
        raise PlanError(f"{path}: {problem}")
    engine = engine_of(intake.findings(), str(path))
    if engine is None or engine.kv_tokens is None:
        if _is_of_sluice(intake.findings()):
            raise PlanError(f"{path}: is a page of Sluice; give one of the engine behind it")
        raise NotModelledError(
            f"{path}: says nothing of a KV cache; a start-up log of vLLM has the line "
            f"'GPU KV cache size: N tokens', a metrics page vllm:cache_config_info"
        )
    return engine


def _is_of_sluice(findings: Findings) -> bool:
    lines = findings.metrics.evidence if findings.metrics else ()
    return any(line.text.startswith("sluice_") for line in lines)


def engine_of(findings: Findings, source: str) -> RunningEngine | None:
    """Of a log the last start that came as far as the KV cache."""
    lives = findings.log.lives if findings.log else ()
    told = [life.facts for life in lives if life.facts.kv_cache_tokens is not None]
    if told:
        return engine_of_log(told[-1], source)
    if findings.metrics is not None and findings.metrics.cache_config:
        return engine_of_page(findings.metrics.cache_config, source)
    return None


def _engine_at(url: str, api_key: str | None) -> RunningEngine:
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        address = str(UpstreamAddress.parse(url))
    except ValueError as error:
        raise PlanError(f"{url}: {error}") from None
    report = asyncio.run(inspect_engine(address, api_key))
    if report.is_sluice and report.kv_cache_tokens is None:
        raise PlanError(f"{url}: this is Sluice; give the URL of the engine behind it")
    if not report.up:
        raise PlanError(f"{url}: the engine is not up: {report.reason}")
    if report.kv_cache_tokens is None:
        raise NotModelledError(f"{url}: the engine does not tell the size of its KV cache")
    return RunningEngine(
        source=url,
        version=report.version,
        model=report.models[0].id if report.models else None,
        kv_tokens=report.kv_cache_tokens,
        max_concurrency=report.max_concurrency,
        max_model_len=longest_model_len(report.models),
    )
