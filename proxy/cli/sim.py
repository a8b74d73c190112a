"""`sluice sim`: the simulated vLLM server alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.beside import end_with_stdin
from proxy.cli.event_loop import loop_factory
from proxy.cli.plain_types import NUMBER, WHOLE, WholeRange
from proxy.simulator.faults import TimedFault, parse_fault
from proxy.simulator.gpu_memory import GIB, GpuMemory
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.serve import PortTakenError, print_log_line, serve_simulator
from proxy.simulator.step_cost import StepCost

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULTS = SimulatorOptions()


def _parse_faults(
    _ctx: click.Context, _param: click.Parameter, written: tuple[str, ...]
) -> tuple[TimedFault, ...]:
    try:
        return tuple(parse_fault(text) for text in written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(context_settings={"show_default": True})
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8000, type=WholeRange(0, 65535), help="0 takes any free port.")
@click.option(
    "--served-model-name", default=_DEFAULTS.served_model_name, help="The one model it serves."
)
@click.option("--api-key", help="Bearer token that /v1 and /v2 routes then ask for.")
@click.option(
    "--max-num-seqs", type=WHOLE, default=_DEFAULTS.max_num_seqs, help="Sequences running at once."
)
@click.option(
    "--max-num-batched-tokens",
    type=WHOLE,
    help="Tokens computed in one step.  [default: 2048, or as many as other options need]",
)
@click.option(
    "--max-model-len",
    type=WHOLE,
    default=_DEFAULTS.max_model_len,
    help="Tokens of prompt and output together.",
)
@click.option(
    "--block-size", type=WHOLE, default=_DEFAULTS.block_size, help="Tokens in one KV block."
)
@click.option(
    "--kv-cache-tokens", type=WHOLE, help="Tokens in the KV cache.  [default: what memory leaves]"
)
@click.option(
    "--enable-chunked-prefill/--no-enable-chunked-prefill",
    default=True,
    help="Whether a long prompt is computed in several steps.",
)
@click.option(
    "--max-num-queued-reqs",
    type=WholeRange(min=0),
    help="Sequences in the server at once, waiting or running; more are answered 503.",
)
@click.option("--gpu-memory-gib", type=NUMBER, default=24.0, help="Memory of the GPU, in GiB.")
@click.option(
    "--gpu-memory-utilization",
    type=NUMBER,
    default=0.92,
    help="Share of it, 0 to 1, that the engine takes.",
)
@click.option("--weights-gib", type=NUMBER, default=15.0, help="Memory of the weights, in GiB.")
@click.option(
    "--speed",
    type=NUMBER,
    default=1.0,
    help="Times as fast as a small data-center GPU with an 8B model.",
)
@click.option(
    "--step-ms", type=NUMBER, default=10.0, help="Milliseconds that each step takes at least."
)
@click.option(
    "--prefill-token-us",
    type=NUMBER,
    default=80.0,
    help="Microseconds more for each prompt token in a step.",
)
@click.option(
    "--decode-sequence-us",
    type=NUMBER,
    default=60.0,
    help="Microseconds more for each sequence that decodes in a step.",
)
@click.option(
    "--output-tokens",
    type=WHOLE,
    default=_DEFAULTS.output_tokens,
    help="Mean tokens of an answer that max_tokens does not cut.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    callback=_parse_faults,
    help="stall, stall:SECONDS, die, oom:PREFILL_TOKENS, slow:FACTOR or reset:TOKENS; "
    "with @SECONDS, from then on. May be given several times.",
)
@click.option(
    "--keep-alive-on-engine-death",
    is_flag=True,
    help="After the engine's death go on answering 500 instead of exiting.",
)
@click.option(
    "--enable-server-load-tracking", is_flag=True, help="Count running requests in /load."
)
@click.option(
    "--exit-with-stdin",
    is_flag=True,
    help="End when standard input does: for a parent process that may be killed.",
)
@click.option("--seed", type=WHOLE, default=0, help="Of the ids that it makes up.")
def sim(host: str, port: int, exit_with_stdin: bool, **chosen: object) -> None:
    """Run a simulated vLLM server: real routes, queue, KV cache and metrics, made-up words.

    It schedules as vLLM's V1 engine does and takes the time that a GPU would take, so that load
    tests, limits and alerts can be tried without one. While it runs, `POST /sim/fault` with the
    written form of a fault as its body lets the fault set in; an empty body ends all faults.
    `GET /sim/gpu` tells its card's memory as nvidia-smi would, and `sluice record` records that.

    \b
    Examples:
      sluice sim
      sluice sim --port 9000 --max-num-seqs 8 --kv-cache-tokens 4096 --max-model-len 2048
      sluice sim --speed 20 --fault slow:3@30 --fault die@60
      sluice sim --no-enable-chunked-prefill --fault oom:6000
    """
    options = _options(chosen)
    if exit_with_stdin:
        end_with_stdin()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve_simulator(options, host, port, _ready(options), print_log_line))
    except PortTakenError as error:
        raise click.ClickException(f"{error}; choose another with --host or --port") from error


def _options(chosen: dict[str, Any]) -> SimulatorOptions:
    try:
        cost = StepCost(
            base_s=chosen.pop("step_ms") / 1e3,
            prefill_token_s=chosen.pop("prefill_token_us") / 1e6,
            decode_sequence_s=chosen.pop("decode_sequence_us") / 1e6,
            speed=chosen.pop("speed"),
        )
        memory = GpuMemory(
            total_bytes=int(chosen.pop("gpu_memory_gib") * GIB),
            utilization=chosen.pop("gpu_memory_utilization"),
            weight_bytes=int(chosen.pop("weights_gib") * GIB),
        )
        return SimulatorOptions(cost=cost, memory=memory, **chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _ready(options: SimulatorOptions) -> Callable[[str], None]:
    def announce(url: str) -> None:
        click.echo(
            f"Simulated vLLM ready on {url} (model {options.served_model_name}, "
            f"max_num_seqs {options.max_num_seqs}, "
            f"KV cache {options.engine_options().kv_cache_tokens:,} tokens)"
        )

    return announce
