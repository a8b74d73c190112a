"""`sluice serve`: the gateway."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
import time
from contextlib import AsyncExitStack, ExitStack, closing
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import click
import uvloop

from proxy import __version__
from proxy.app import build
from proxy.cli.beside import end_with_stdin, simulated_engine_beside
from proxy.cli.settings_options import COMMON_SETTINGS, settings_options
from proxy.cli.soundness import descriptors_needed
from proxy.config import Settings, given_fields, load_settings, settings_table
from proxy.edge.connection import ConnectionLimits
from proxy.edge.server import Address, BindError, Server, bind
from proxy.telemetry.access_log import AccessLog
from proxy.telemetry.line_writer import LineWriter
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.logging_setup import configure_logging
from proxy.telemetry.trace_file import TraceFile

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from proxy.app import Application
    from proxy.edge.records import RecordSink

_log = logging.getLogger("sluice.serve")

_SIMULATED_MAX_NUM_SEQS = 64
# Longer than the 60 s after which the usual load balancers drop an idle connection: the side that
# sends requests must be the one to close first, or a request meets a connection that is closing.
_KEEP_ALIVE_S = 75.0
# Requests leave no reference cycles behind but for failed ones, so the collector may look seldom.
_GC_THRESHOLDS = (20_000, 20, 50)


class Beside(Protocol):
    """What runs beside the gateway. When it has `ended` the gateway drains and ends; `leave` tells
    it that the gateway does."""

    @property
    def ended(self) -> asyncio.Future[None]: ...

    def leave(self) -> None: ...


# Entered before the first request is accepted, left when the last one has ended.
Companion: TypeAlias = "Callable[[Application, LineWriter], AbstractAsyncContextManager[Beside]]"


@click.command()
@settings_options(*COMMON_SETTINGS)
@click.option(
    "--upstream",
    "beside",
    type=click.Choice(["sim"]),
    help="Start the simulated engine beside the gateway and serve in front of it.",
)
@click.option(
    "--exit-with-stdin", is_flag=True, hidden=True
)  # for `sluice demo`, which may be killed
def serve(beside: str | None, exit_with_stdin: bool, overrides: dict[str, Any]) -> None:
    """Run the gateway in front of a vLLM server, or several.

    Every setting is an environment variable (SLUICE_...); flags beat the environment, which beats
    a .env file. docs/settings.md lists them all.

    \b
    Examples:
      SLUICE_MAX_NUM_SEQS=64 sluice serve --upstream-urls http://127.0.0.1:8000
      sluice serve --upstream-urls http://gpu-1:8000,http://gpu-2:8000 --max-num-seqs 64
      sluice serve --upstream sim --port 9000
    """
    if exit_with_stdin:
        end_with_stdin()
    with ExitStack() as stack:
        if beside == "sim":
            overrides = _in_front_of_simulator(overrides, stack)
        run_gateway(load_settings(overrides))


def run_gateway(settings: Settings, companion: Companion | None = None) -> None:
    """Until a signal ends it, or what runs beside it does."""
    with ExitStack() as stack:
        public = stack.enter_context(_bind(settings.host, settings.port, "SLUICE_"))
        admin = stack.enter_context(
            _bind(settings.admin_host, settings.admin_port, "SLUICE_ADMIN_")
        )
        log = stack.enter_context(closing(LineWriter(sys.stderr.fileno(), "stderr", owned=False)))
        configure_logging(settings.log_level, LogFormat(settings.log_format), log)
        trace = None
        if settings.trace_file is not None:
            trace = stack.enter_context(closing(LineWriter.to_file(settings.trace_file)))
        _raise_descriptor_limit(settings)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, (public, admin), log, trace, companion))


def _in_front_of_simulator(overrides: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
    """Starts the engine once the settings are known to be sound; fills in what nobody has set.

    It beats an engine that the environment names, as flags do; two flags that name one are a slip.
    """
    if overrides.get("upstream_urls"):
        raise click.UsageError("'--upstream sim' and '--upstream-urls' name two engines; give one.")
    if not given_fields(overrides) & {"max_num_seqs", "max_in_flight"}:
        overrides = {**overrides, "max_num_seqs": _SIMULATED_MAX_NUM_SEQS}
    settings = load_settings(overrides)
    if settings.upstreams_file is not None:
        raise click.UsageError("'--upstream sim' and SLUICE_UPSTREAMS_FILE name engines; give one.")
    max_num_seqs = settings.max_num_seqs or settings.max_in_flight + 1
    url = stack.enter_context(simulated_engine_beside(max_num_seqs))
    return {**overrides, "upstream_urls": url}


def _bind(host: str, port: int, prefix: str) -> socket.socket:
    try:
        return bind(Address(host, port, f"{prefix}HOST, {prefix}PORT"))
    except BindError as error:
        raise click.ClickException(str(error)) from error


def _raise_descriptor_limit(settings: Settings) -> None:
    """Takes what the system allows; says so when that is less than the limits may need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    engines = len(settings.upstream_urls)
    needed = descriptors_needed(settings, engines)
    if hard != resource.RLIM_INFINITY and hard < needed:
        _log.warning(
            "only %d open files are allowed, but %d seats and %d waiting places need %d: "
            "raise it with 'ulimit -n' or LimitNOFILE=",
            hard,
            settings.max_in_flight * engines,
            settings.places(engines),
            needed,
        )


async def _serve(
    settings: Settings,
    sockets: tuple[socket.socket, socket.socket],
    log: LineWriter,
    trace: LineWriter | None,
    companion: Companion | None = None,
) -> None:
    application = build(settings, _record_sinks(settings, log, trace))
    async with AsyncExitStack() as stack:
        beside = None
        if companion is not None:
            beside = await stack.enter_async_context(companion(application, log))
        await _serve_beside(beside, application, settings, sockets)


async def _serve_beside(
    beside: Beside | None,
    application: Application,
    settings: Settings,
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    def begin_drain() -> None:
        application.begin_drain()
        if beside is not None:
            beside.leave()

    server = Server(
        apps=(application.public, application.admin),
        drain=application.drain,
        begin_drain=begin_drain,
        ends_with=() if beside is None else (beside.ended,),
        drain_timeout_s=settings.drain_timeout,
        connection_limits=ConnectionLimits(
            request_s=settings.body_timeout,
            write_s=settings.write_timeout,
            idle_s=_KEEP_ALIVE_S,
        ),
    )
    try:
        await application.start()
        engines = list(application.fleet.engines)
        await server.run(sockets, on_ready=lambda: _ready(settings, engines, *sockets))
    finally:
        await application.stop()


def _record_sinks(
    settings: Settings, log: LineWriter, trace: LineWriter | None
) -> list[RecordSink]:
    sinks: list[RecordSink] = []
    if settings.log_level in ("debug", "info"):
        sinks.append(AccessLog(log, LogFormat(settings.log_format)))
    if trace is not None:
        sinks.append(TraceFile(trace, time.monotonic()))
    return sinks


def _ready(
    settings: Settings, engines: Sequence[str], public: socket.socket, admin: socket.socket
) -> None:
    # What exists now lives as long as the process: the collector need not walk it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    _log.info(
        "settings: %s",
        " ".join(f"{row.variable}={row.value}" for row in settings_table(settings) if row.value),
    )
    host, port = _reachable(public)
    admin_host, admin_port = _reachable(admin)
    click.echo(
        f"Sluice {__version__} serves http://{host}:{port} in front of "
        f"{_seats(settings, engines)}, {settings.places(len(engines))} waiting places, "
        f"{settings.queue_timeout:g} s at most in the queue\n"
        f"Metrics and health: http://{admin_host}:{admin_port}/metrics, /status, /healthz, /readyz"
    )


def _seats(settings: Settings, engines: Sequence[str]) -> str:
    each = settings.max_in_flight
    if len(engines) == 1:
        return f"{engines[0]}: {each} seats"
    return f"{len(engines)} engines: {each} seats in each, {each * len(engines)} in all"


def _reachable(bound: socket.socket) -> tuple[str, int]:
    """The listener's address as one would type it on this machine."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # a listener on every interface, shown, not bound, here
        host = "127.0.0.1"
    return (f"[{host}]" if ":" in host else host), port
