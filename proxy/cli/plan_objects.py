"""The objects of `sluice plan --json`, as docs/plan.md describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.vllm.launch_plan.explanation import assumptions, misfit, steps, warnings
from proxy.vllm.launch_plan.launch_flags import launch_command, launch_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.launch_plan.limit_fit import LimitFit
    from proxy.vllm.launch_plan.plan import LaunchPlan
    from proxy.vllm.launch_plan.remedies import Remedy
    from proxy.vllm.launch_plan.running_engine import Fit, RunningEngine


def plan_object(
    plan: LaunchPlan,
    cures: Sequence[Remedy],
    limit: LimitFit | None = None,
    compose: str | None = None,
) -> dict[str, Any]:
    """`compose`: the text of the compose file, where it is to be printed."""
    return {
        "fits": plan.fits,
        "why_not": None if plan.fits else misfit(plan),
        "missing_bytes": max(0, int(plan.missing)),
        "model": _model(plan),
        "cards": _cards(plan),
        "kv_cache": _kv_cache(plan),
        "sequences": _sequences(plan),
        "vllm": {
            "flags": {flag.name: flag.value for flag in launch_flags(plan)},
            "command": launch_command(plan) if plan.fits else None,
        },
        "sluice": plan.limits.environment() if plan.fits else None,
        "max_in_flight": _limit(limit),
        "service_time_s": plan.service.mean_s if plan.service else None,
        "warnings": list(warnings(plan)),
        "assumptions": list(assumptions(plan)),
        "remedies": [
            {"flags": each.flags, "costs": each.costs, "kv_cache_tokens": each.kv_tokens}
            for each in cures
        ],
        "steps": [
            {"what": each.what, "formula": each.formula, "numbers": each.numbers}
            for each in steps(plan)
        ],
        "compose": compose,
    }


def _limit(limit: LimitFit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {"value": limit.max_in_flight, "fits": limit.fits, "why": limit.why}


def _model(plan: LaunchPlan) -> dict[str, Any]:
    shape = plan.request.shape
    return {
        "name": plan.request.model,
        "parameters": shape.parameters,
        "active_parameters": shape.active_parameters,
        "layers": len(shape.layers),
        "quantization": plan.request.form.name,
        "max_model_len": shape.max_model_len,
    }


def _cards(plan: LaunchPlan) -> dict[str, Any]:
    """Bytes on one card; of weights and KV cache a number for each stage of a pipeline."""
    budget, placed = plan.budget, plan.request.placement
    return {
        "card": plan.request.card.name,
        "tensor_parallel": placed.tensor_parallel,
        "pipeline_parallel": placed.pipeline_parallel,
        "memory_bytes": budget.memory,
        "utilization": budget.utilization,
        "weights_bytes": [int(size) for size in budget.weights],
        "activations_bytes": int(budget.overheads.activations),
        "cuda_graphs_bytes": int(budget.overheads.graphs),
        "other_bytes": int(budget.overheads.other),
        "kv_cache_bytes": [int(size) for size in budget.kv_memory],
        "kv_cache_bytes_range": [int(size) for size in budget.kv_range],
    }


def _kv_cache(plan: LaunchPlan) -> dict[str, Any]:
    cache = plan.cache
    return {
        "bytes_per_token": list(cache.layout.token_bytes),
        "block_tokens": cache.layout.block_tokens,
        "blocks": cache.blocks,
        "tokens": cache.tokens,
        "max_model_len": cache.max_model_len,
        "max_concurrency": round(cache.concurrency, 2),
    }


def _sequences(plan: LaunchPlan) -> dict[str, Any]:
    total = plan.request.traffic.total
    return {
        "traffic": plan.request.traffic.source,
        "p50_tokens": total.p50,
        "p95_tokens": total.p95,
        "at_p50": plan.cache.sequences_of(total.p50),
        "at_p95": plan.cache.sequences_of(total.p95),
        "mean_tokens_held": round(plan.held.tokens),
        "fitting": plan.fitting,
    }


def running_object(engine: RunningEngine, fit: Fit) -> dict[str, Any]:
    return {
        "fits": fit.fits,
        "reasons": list(fit.reasons),
        "max_in_flight": fit.max_in_flight,
        "recommended_max_in_flight": fit.seats,
        "engine": {
            "source": engine.source,
            "version": engine.version,
            "model": engine.model,
            "kv_cache_tokens": engine.kv_tokens,
            "kv_cache_bytes": engine.kv_bytes,
            "weights_bytes": engine.model_bytes,
            "cuda_graphs_bytes": engine.graph_bytes,
            "max_concurrency": engine.max_concurrency,
            "max_model_len": engine.max_model_len,
            "max_num_seqs": engine.max_num_seqs,
            "flags": dict(engine.flags),
        },
    }
