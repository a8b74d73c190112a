"""`sluice serve`: the gateway."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import click

from proxy.app import build
from proxy.cli.beside import end_with_stdin, simulated_engine_beside
from proxy.cli.connection_caps import admin_cap, most_to_engines, public_cap
from proxy.cli.serve_workers import supervise
from proxy.cli.serving import (
    announce,
    bind_listener,
    connection_limits,
    no_core_dumps,
    open_trace,
    raise_descriptor_limit,
    record_sinks,
    serving_loop_factory,
    settle_memory,
    start_log,
)
from proxy.cli.settings_options import COMMON_SETTINGS, settings_options
from proxy.config import Settings, given_fields, load_settings
from proxy.edge.server import Server

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from proxy.app import Application
    from proxy.telemetry.line_writer import LineWriter

_SIMULATED_MAX_NUM_SEQS = 64


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
    if companion is not None and settings.workers > 1:
        raise click.ClickException(
            f"SLUICE_WORKERS={settings.workers}: must be 1 here; what runs beside the gateway "
            "belongs to one process"
        )
    new_loop = serving_loop_factory(settings)
    with ExitStack() as stack:
        public = stack.enter_context(bind_listener(settings.host, settings.port, "SLUICE_"))
        admin = stack.enter_context(
            bind_listener(settings.admin_host, settings.admin_port, "SLUICE_ADMIN_")
        )
        log = start_log(settings, stack)
        raise_descriptor_limit()
        if companion is None:  # an engine beside it would inherit this
            no_core_dumps()
        if settings.workers > 1:
            serving = supervise(settings, public, admin)
        else:
            trace = open_trace(settings, stack)
            serving = _serve(settings, (public, admin), log, trace, companion)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serving)


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


async def _serve(
    settings: Settings,
    sockets: tuple[socket.socket, socket.socket],
    log: LineWriter,
    trace: LineWriter | None,
    companion: Companion | None = None,
) -> None:
    async with AsyncExitStack() as stack:
        sinks = record_sinks(settings, log, trace, time.monotonic(), stack)
        application = build(settings, sinks)
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

    refused = application.metrics.connection_refused
    public_connections = public_cap(settings, refused, application.fleet.most_connections)
    application.engine_clients.keep_within(most_to_engines(public_connections))
    server = Server(
        apps=(application.public, application.admin),
        drain=application.drain,
        begin_drain=begin_drain,
        ends_with=() if beside is None else (beside.ended,),
        drain_timeout_s=settings.drain_timeout,
        connection_limits=connection_limits(settings),
        caps=(
            public_connections,
            admin_cap(refused),
        ),
    )
    try:
        await application.start()
        engines = list(application.fleet.engines)
        await server.run(sockets, on_ready=lambda: _ready(settings, engines, *sockets))
    finally:
        await application.stop()


def _ready(
    settings: Settings, engines: Sequence[str], public: socket.socket, admin: socket.socket
) -> None:
    settle_memory()
    announce(settings, engines, public, admin)
