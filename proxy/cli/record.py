"""`sluice record`: the memory curve, the engine's figures and Sluice's, on one clock, to a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from proxy.cli.plain_types import NumberRange
from proxy.recording.chart import Chart
from proxy.recording.nvml import NoGpuError, open_nvml
from proxy.recording.recorder import Sources, timeout_of
from proxy.recording.recorder import record as run_recorder
from proxy.recording.recording_file import ForeignFileError, open_recording
from proxy.recording.simulated_gpu import GPU_PATH, NoGpus, SimulatedGpus
from proxy.recording.table import rows
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s
from proxy.upstream.address import UpstreamAddress
from proxy.vllm.gateway_page import GatewayMetrics
from proxy.vllm.probe import NoAnswer, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from proxy.recording.readings import GpuSource, Reading

_BAD_OUTPUT = 2
_NOTHING = 1
_SIM_TIMEOUT_S = 2.0
_METRICS = re.compile(r"/metrics/?$")
_ADMIN, _ADMIN_DEFAULTS = "http://{}:{}", ("127.0.0.1", "8081")
# A listener on every interface has no address that one could connect to.
_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class _Request:
    engine: str | None
    gateway: str | None
    gpu: str
    output: str
    interval_s: float
    duration_s: float | None
    chart: bool


def _url(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if not value:
        return None
    try:
        return str(UpstreamAddress.parse(_METRICS.sub("", value.split(",")[0].strip())))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _admin_listener() -> str:
    """Of the gateway that the same environment starts."""
    host = os.environ.get("SLUICE_ADMIN_HOST") or _ADMIN_DEFAULTS[0]
    port = os.environ.get("SLUICE_ADMIN_PORT") or _ADMIN_DEFAULTS[1]
    host = _REACHABLE.get(host, host)
    return _ADMIN.format(f"[{host}]" if ":" in host else host, port)


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = duration_s(value, "it")
    except BadSpecificationError as error:
        raise click.BadParameter(str(error)) from error
    if seconds <= 0:
        raise click.BadParameter("must be above 0")
    return seconds


@click.command(context_settings={"show_default": True})
@click.option(
    "--engine",
    envvar="SLUICE_UPSTREAM_URLS",
    default="http://127.0.0.1:8000",
    callback=_url,
    help="Engine whose /metrics is read; '' for none.  [env: SLUICE_UPSTREAM_URLS, its first]",
)
@click.option(
    "--sluice",
    "gateway",
    default=_admin_listener,
    show_default=_ADMIN.format(*_ADMIN_DEFAULTS),
    callback=_url,
    help="Admin listener of Sluice, whose /metrics is read; '' for none.  "
    "[env: SLUICE_ADMIN_HOST, SLUICE_ADMIN_PORT]",
)
@click.option(
    "--gpu",
    type=click.Choice(["auto", "nvml", "sim", "none"]),
    default="auto",
    help="Which cards are read: this machine's (nvml), or the simulated engine's (sim).",
)
@click.option(
    "--output",
    "-o",
    default="sluice-record.csv",
    help="File to write to; an earlier recording is continued. '-' is standard output.",
)
@click.option(
    "--interval",
    type=NumberRange(0.05, 3600),
    default=1.0,
    help="Seconds between two samples.",
)
@click.option(
    "--duration",
    metavar="TIME",
    callback=_seconds,
    help="When it ends, as 600 (seconds) or 10m.  [default: until Ctrl-C]",
)
@click.option("--no-chart", is_flag=True, help="No chart, also on a terminal.")
@click.pass_context
def record(
    ctx: click.Context,
    engine: str | None,
    gateway: str | None,
    gpu: str,
    output: str,
    interval: float,
    duration: float | None,
    no_chart: bool,
) -> None:
    """Record memory, engine and gateway while you test: one file, one clock, one line a sample.

    The file is what `nvidia-smi --query-gpu=... --format=csv -l 1` writes, with columns of the
    engine (running, waiting, KV cache, preemptions, tokens) and of Sluice beside it. `sluice
    doctor` reads it, and says whether memory spiked, climbed or stood still. Whoever does not
    answer leaves its columns empty; restarts of the engine are outlived.

    \b
    Exit code: 0 recorded, 1 nobody told anything, 2 the file cannot be written.

    \b
    Examples:
      sluice record --duration 600
      sluice record --engine http://gpu-host:8000 --sluice http://gpu-host:8081 -o peak.csv
      sluice record --interval 0.2 --gpu none -o - | cut -d, -f7-
    """
    chart = not no_chart and output != "-" and sys.stderr.isatty()
    request = _Request(engine, gateway, gpu, output, interval, duration, chart)
    try:
        told = asyncio.run(_record(request))
    except ForeignFileError as error:
        click.echo(f"error: {output}: {error}; choose another with --output", err=True)
        ctx.exit(_BAD_OUTPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read our output has had enough
        told = True
    except OSError as error:
        click.echo(f"error: {output}: {(error.strerror or str(error)).lower()}", err=True)
        ctx.exit(_BAD_OUTPUT)
    ctx.exit(0 if told else _NOTHING)


async def _record(request: _Request) -> bool:
    """Whether anybody told anything."""
    async with AsyncExitStack() as stack:
        file = stack.enter_context(open_recording(request.output))
        engine = await _probe(stack, request.engine)
        gateway = await _probe(stack, request.gateway)
        gpus = await _gpus(stack, request, engine)
        chart = Chart(f"recording to {request.output}")
        shown = stack.enter_context(_shown(chart)) if request.chart else _nothing
        told = False
        silent = {"engine": request.engine, "Sluice": request.gateway}

        def take(reading: Reading) -> None:
            nonlocal told
            file.write(rows(reading, request.engine or ""))
            chart.add(reading)
            shown()
            told = told or reading.tells_anything
            if reading.engine_up:
                silent["engine"] = None
            if reading.gateway != GatewayMetrics():
                silent["Sluice"] = None

        sources = Sources(gpus=gpus, engine=engine, gateway=gateway)
        await run_recorder(sources, request.interval_s, request.duration_s, _stop_event(), take)
    _sum_up(chart, request, silent, told=told)
    return told


async def _probe(stack: AsyncExitStack, root_url: str | None) -> Probe | None:
    return None if root_url is None else await stack.enter_async_context(Probe(root_url))


async def _gpus(stack: AsyncExitStack, request: _Request, engine: Probe | None) -> GpuSource:
    """This machine's cards, or the simulated engine's; what is not there is said once."""
    reason = "--gpu none"
    if request.gpu in ("auto", "nvml"):
        try:
            gpus = open_nvml()
        except NoGpuError as error:
            reason = str(error)
        else:
            stack.callback(gpus.close)
            return gpus
    if request.gpu in ("auto", "sim") and engine is not None and await _is_simulated(engine):
        click.echo("GPU memory: the simulated engine's", err=True)
        return SimulatedGpus(engine, timeout_of(request.interval_s))
    if request.gpu == "sim":
        reason = "the engine is not a simulated one that answers"
    click.echo(f"GPU memory: none is recorded ({reason})", err=True)
    return NoGpus()


async def _is_simulated(engine: Probe) -> bool:
    answer = await engine.get(GPU_PATH, _SIM_TIMEOUT_S)
    return not isinstance(answer, NoAnswer) and answer.status == 200


@contextlib.contextmanager
def _shown(chart: Chart) -> Iterator[Callable[[], None]]:
    """Gives what draws it anew."""
    with Live(chart, console=Console(stderr=True), auto_refresh=False) as live:
        yield live.refresh


def _nothing() -> None:
    """Without a terminal nothing is drawn."""


def _stop_event() -> asyncio.Event:
    """Set by Ctrl-C and by SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _sum_up(
    chart: Chart, request: _Request, silent: Mapping[str, str | None], *, told: bool
) -> None:
    where = "standard output" if request.output == "-" else request.output
    count = "1 sample" if chart.samples == 1 else f"{chart.samples} samples"
    click.echo(f"{count} in {where}", err=True)
    if told:
        click.echo("peaks: " + ", ".join(chart.peaks()), err=True)
        for who, url in silent.items():
            if url is not None:
                click.echo(
                    f"note: no metrics of {who} came from {url}: its columns are empty", err=True
                )
    else:
        click.echo("nobody told anything: no GPU, no engine, no Sluice answered", err=True)
