"""The launch command: the flags of `vllm serve`, each with its reason."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.vllm.launch_plan.plan import LaunchPlan


@dataclass(frozen=True, slots=True)
class LaunchFlag:
    """`value` is None for a flag that takes none. `said`: the one who asked gave it."""

    name: str
    value: str | None
    why: str
    said: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return (self.name,) if self.value is None else (self.name, self.value)


def launch_flags(plan: LaunchPlan) -> tuple[LaunchFlag, ...]:
    return (*_sizes(plan), *_formats(plan), *_places(plan))


def _sizes(plan: LaunchPlan) -> Iterator[LaunchFlag]:
    request, total = plan.request, plan.request.traffic.total
    yield LaunchFlag(
        "--max-num-seqs",
        str(plan.max_num_seqs),
        f"the KV cache holds {plan.fitting:,} sequences of this traffic; "
        f"vLLM's own default here is {plan.default_max_num_seqs}",
        request.max_num_seqs is not None,
    )
    yield LaunchFlag(
        "--max-model-len",
        str(plan.max_model_len),
        f"a quarter more than the p99 of prompt and output, {total.longest_likely:,} tokens; "
        f"longer requests are refused with 400",
        request.max_model_len is not None,
    )
    if request.kv_memory is not None:
        yield LaunchFlag(
            "--kv-cache-memory-bytes",
            str(request.kv_memory),
            "as given; utilization is ignored",
            said=True,
        )
    else:
        yield LaunchFlag(
            "--gpu-memory-utilization",
            f"{plan.budget.utilization:g}",
            "vLLM's default where the card allows it: the CUDA context, and spikes that profiling "
            "does not see, need the rest",
            request.utilization is not None,
        )
    yield LaunchFlag(
        "--max-num-batched-tokens",
        str(plan.max_num_batched_tokens),
        "vLLM's default for this card; lower: smoother token times and less memory, higher: "
        "quicker first tokens",
        request.max_num_batched_tokens is not None,
    )


def _formats(plan: LaunchPlan) -> Iterator[LaunchFlag]:
    request = plan.request
    given = "as given"
    if request.dtype != "auto":
        yield LaunchFlag("--dtype", request.dtype, given, said=True)
    if request.quantize is not None:
        yield LaunchFlag("--quantization", request.quantize, given, said=True)
    if request.kv_dtype != "auto":
        yield LaunchFlag("--kv-cache-dtype", request.kv_dtype, given, said=True)
    if request.block_tokens is not None:
        yield LaunchFlag("--block-size", str(request.block_tokens), given, said=True)
    if request.enforce_eager:
        yield LaunchFlag("--enforce-eager", None, "no CUDA graphs: less memory, slower", said=True)


def _places(plan: LaunchPlan) -> Iterator[LaunchFlag]:
    placed = plan.request.placement
    if placed.tensor_parallel > 1:
        yield LaunchFlag(
            "--tensor-parallel-size", str(placed.tensor_parallel), "cards that share each layer"
        )
    if placed.pipeline_parallel > 1:
        yield LaunchFlag(
            "--pipeline-parallel-size", str(placed.pipeline_parallel), "groups of layers"
        )


def launch_words(plan: LaunchPlan) -> tuple[str, ...]:
    words = [word for flag in launch_flags(plan) for word in flag.words]
    return ("vllm", "serve", plan.request.model, *words)


def launch_command(plan: LaunchPlan) -> str:
    """For a shell, a flag a line."""
    head = shlex.join(launch_words(plan)[:3])
    flags = [shlex.join(flag.words) for flag in launch_flags(plan)]
    return " \\\n  ".join((head, *flags))
