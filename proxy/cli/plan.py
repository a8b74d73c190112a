"""`sluice plan`: launch flags for vLLM and limits for Sluice, or what a running engine got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from proxy.cli.plain_types import NumberRange, WholeRange
from proxy.vllm.launch_plan.plan_request import DEFAULT_HEADROOM

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = WholeRange(min=1)
_SHARE = NumberRange(0, 1, min_open=True)

_OPTIONS = (
    click.option("--model", help="config.json of the model, or the folder that it is in."),
    click.option("--model-name", help="What `vllm serve` is told.  [default: the folder]"),
    click.option("--layers", type=_WHOLE, help="Without a config.json: layers of the model."),
    click.option("--kv-heads", type=_WHOLE, help="... its KV heads."),
    click.option("--head-dim", type=_WHOLE, help="... the size of a head."),
    click.option("--hidden", type=_WHOLE, help="... its hidden size."),
    click.option("--params", help="... its parameters, as 8.03B; beside a config.json, instead."),
    click.option("--vocab", type=_WHOLE, help="... its vocabulary.  [default: 128256]"),
    click.option("--dtype", help="As vLLM's: auto, bfloat16, float16, float32."),
    click.option("--quantization", help="fp8, awq, gptq, bitsandbytes...; the file's own counts."),
    click.option("--kv-cache-dtype", help="auto, fp8..."),
    click.option("--weights", help="What all weights take, as 15.2GiB, where that is known."),
    click.option("--gpu", "--gpu-memory", "gpu_memory", help="H100, A100-80G, or a size as 80GiB."),
    click.option("--gpus", type=_WHOLE, help="Cards.  [default: what the parallel sizes need]"),
    click.option("--tensor-parallel", "--tensor-parallel-size", type=_WHOLE),
    click.option("--pipeline-parallel", "--pipeline-parallel-size", type=_WHOLE),
    click.option("--utilization", "--gpu-memory-utilization", type=_SHARE),
    click.option("--kv-cache-memory", help="For the KV cache of one card, instead of counting it."),
    click.option("--max-model-len", type=_WHOLE, help="[default: 1.25 x p99 of the traffic]"),
    click.option("--max-num-seqs", type=_WHOLE, help="[default: what the KV cache holds]"),
    click.option("--max-num-batched-tokens", type=_WHOLE, help="[default: vLLM's for the card]"),
    click.option("--block-size", type=_WHOLE, help="[default: 16, and 64 for MLA]"),
    click.option("--enforce-eager", is_flag=True, help="No CUDA graphs."),
    click.option("--prompt-tokens", metavar="P50,P95[,P99]", help="Of the requests' prompts."),
    click.option("--output-tokens", metavar="P50,P95[,P99]", help="Of their answers."),
    click.option("--trace", help="A trace of requests instead: Azure, BurstGPT, Mooncake, Sluice."),
    click.option("--headroom", type=NumberRange(0, 1, min_open=True, max_open=True),
                 default=DEFAULT_HEADROOM, show_default=True, help="As SLUICE_HEADROOM."),
    click.option("--service-time", type=NumberRange(0, min_open=True),
                 help="Seconds of a request in the engine, where they were measured."),
    click.option("--from", "source", metavar="FILE|URL",
                 help="A start-up log, a metrics page or the URL of a running engine."),
    click.option("--max-in-flight", type=_WHOLE, envvar="SLUICE_MAX_IN_FLIGHT",
                 help="The limit to judge.  [default: with --from SLUICE_MAX_IN_FLIGHT]"),
    click.option("--compose", is_flag=False, flag_value="-", metavar="[FILE]",
                 help="Write a compose file; without FILE print it, alone or in the --json."),
    click.option("--explain", is_flag=True, help="Print each formula with its numbers."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables."),
)  # fmt: skip


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("model_path", metavar="[MODEL]", required=False)
@_options
@click.pass_context
def plan(ctx: click.Context, /, model_path: str | None, **given: Any) -> None:  # noqa: ANN401 - what click read
    """Find launch flags for vLLM and limits for Sluice, or judge them against a running engine.

    MODEL is a config.json or the folder that it is in; nothing is downloaded. What a card needs for
    weights and KV cache is counted as vLLM counts it, the rest is estimated; --explain shows how.
    With --from, says what an engine that has started really got, and whether the limit fits it.

    \b
    Exit code: 0 it fits, 2 bad input, 3 it or --max-in-flight does not,
    4 not enough is known (Mamba layers, a log without the KV cache).

    \b
    Examples:
      sluice plan ./Llama-3.1-8B --gpu H100 --prompt-tokens 800,6000 --output-tokens 200,900
      sluice plan config.json --gpu L40S --gpus 4 --trace requests.jsonl --explain
      sluice plan --layers 32 --kv-heads 8 --head-dim 128 --hidden 4096 --params 8B --gpu 24GiB
      sluice plan --from vllm.log --max-in-flight 64
      sluice plan --from http://gpu-host:8000 --prompt-tokens 800,6000 --output-tokens 200,900
      sluice plan config.json --gpu H100 --compose compose.yaml
    """
    from proxy.cli.plan_answer import answer  # noqa: PLC0415 - for its help nobody waits for this

    if model_path is not None and given["model"] is not None:
        raise click.UsageError("the model is given twice: MODEL and --model")
    given["model"] = model_path or given["model"]
    # A gateway's own setting says nothing of an engine that is only planned.
    if not given["source"] and not _is_typed(ctx, "max_in_flight"):
        given["max_in_flight"] = None
    ctx.exit(answer(given))


def _is_typed(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
