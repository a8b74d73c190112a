"""Asks an engine once for what it tells about itself, for `sluice check`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.vllm.health import Health, judge_health, judge_key
from proxy.vllm.metrics_page import EngineMetrics, parse_metrics_page
from proxy.vllm.probe import Answer, NoAnswer, Probe
from proxy.vllm.served_models import MAX_MODELS_BYTES, ServedModel, served_models

if TYPE_CHECKING:
    import httpx

_MAX_JSON_BYTES = 1024 * 1024
_MAX_PAGE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """None stands for what the engine does not tell; `models` is empty then.

    `up`: it has answered its health check. `key_refused`: it did not accept the key, or asks for
    one. `reason` is what came of asking, in words. `is_sluice`: no engine answers, but a gateway
    such as this one, or this one itself. `kv_cache_tokens` is the size of the KV cache,
    `max_concurrency` how many requests of full model length it holds.

    That vLLM does not tell its --max-num-seqs is no oversight here: no page of it does, outside
    of its development mode.
    """

    up: bool
    key_refused: bool
    reason: str
    is_sluice: bool = False
    version: str | None = None
    models: tuple[ServedModel, ...] = ()
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None


async def inspect_engine(
    root_url: str,
    api_key: str | None = None,
    *,
    ip: str = "",
    timeout_s: float = 5.0,
    transport: httpx.AsyncBaseTransport | None = None,
) -> EngineReport:
    """Never raises for what the engine does. `root_url` is without /v1 and without trailing slash,
    `ip` where to connect to in place of looking up its host; `timeout_s` limits each of the four
    questions."""
    async with Probe(root_url, api_key, transport, ip=ip) as probe:
        answer = await probe.get("/health", timeout_s)
        health = judge_health(Health(), answer, api_key is not None)
        if not health.up:
            is_sluice = _is_sluice(answer)
            return EngineReport(
                up=False, key_refused=False, reason=health.reason, is_sluice=is_sluice
            )
        version = await probe.get("/version", timeout_s, _MAX_JSON_BYTES)
        models = await probe.get("/v1/models", timeout_s, MAX_MODELS_BYTES)
        page = await probe.get("/metrics", timeout_s, _MAX_PAGE_BYTES)
    metrics = _metrics(page)
    health = judge_key(health, models)
    return EngineReport(
        up=True,
        key_refused=health.key_refused,
        reason=health.reason,
        is_sluice=any(map(_is_sluice, (answer, version, models, page))),
        version=_version(version),
        models=served_models(models),
        kv_cache_tokens=metrics.kv_cache_size_tokens,
        max_concurrency=metrics.max_concurrency,
    )


def _is_sluice(answer: Answer | NoAnswer) -> bool:
    return isinstance(answer, Answer) and answer.from_sluice


def _body(answer: Answer | NoAnswer) -> bytes:
    if isinstance(answer, NoAnswer) or answer.status != 200:
        return b""
    return answer.body or b""


def _object(answer: Answer | NoAnswer) -> dict[str, Any]:
    try:
        read = json.loads(_body(answer))
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _version(answer: Answer | NoAnswer) -> str | None:
    version = _object(answer).get("version")
    return version if isinstance(version, str) else None


def _metrics(answer: Answer | NoAnswer) -> EngineMetrics:
    return parse_metrics_page(_body(answer).decode(errors="replace"))
