"""What every process that serves does at its start, be it a whole gateway or one of its workers."""

from __future__ import annotations

import gc
import logging
import os
import resource
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy import __version__
from proxy.cli.event_loop import loop_factory
from proxy.cli.soundness import descriptors_needed
from proxy.config import Settings, settings_table
from proxy.edge.connection import ConnectionLimits
from proxy.edge.server import Address, BindError, bind
from proxy.telemetry.access_log import AccessLog
from proxy.telemetry.last_resort import faults_in_the_log, log_loop_fault
from proxy.telemetry.line_writer import LineWriter
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.logging_setup import configure_logging
from proxy.telemetry.trace_file import TraceFile

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack, ExitStack

    from proxy.edge.records import RecordSink

_log = logging.getLogger("sluice.serve")

# Longer than the 60 s after which the usual load balancers drop an idle connection: the side that
# sends requests must be the one to close first, or a request meets a connection that is closing.
_KEEP_ALIVE_S = 75.0
# Neither requests nor connections leave reference cycles behind, so the collector may look seldom;
# but not so seldom that what others leave (httpx, at each poll) could grow to millions of objects.
_GC_THRESHOLDS = (20_000, 20, 5)


def bind_listener(host: str, port: int, prefix: str) -> socket.socket:
    """Raises ClickException, which says which settings are to blame."""
    try:
        return bind(Address(host, port, f"{prefix}HOST, {prefix}PORT"))
    except BindError as error:
        raise click.ClickException(str(error)) from error


def raise_descriptor_limit() -> None:
    """Takes what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _warn_of_few_descriptors(settings: Settings, engines: int) -> None:
    """When they are fewer than the limits may need in front of so many engines."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors_needed(settings, engines)
    if hard != resource.RLIM_INFINITY and hard < needed:
        _log.warning(
            "only %d open files are allowed, but %d seats and %d waiting places need %d: "
            "raise it with 'ulimit -n' or LimitNOFILE=",
            hard,
            settings.max_in_flight * engines,
            settings.places_in_all(engines),
            needed,
        )


def no_core_dumps() -> None:
    """In one would be what clients ask and what they are answered, and the engine's key. Whoever
    needs one all the same has `prlimit --core`."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def start_log(settings: Settings, stack: ExitStack) -> LineWriter:
    """Standard error, to which nobody has to wait for anybody; closed with `stack`."""
    writer = LineWriter(sys.stderr.fileno(), "stderr", owned=False, shared=settings.workers > 1)
    log = stack.enter_context(closing(writer))
    stack.enter_context(faults_in_the_log())
    configure_logging(settings.log_level, LogFormat(settings.log_format), log)
    return log


def open_trace(settings: Settings, stack: ExitStack) -> LineWriter | None:
    """The trace file if there is to be one; closed with `stack`."""
    if settings.trace_file is None:
        return None
    return stack.enter_context(closing(LineWriter.to_file(settings.trace_file)))


def record_sinks(
    settings: Settings,
    log: LineWriter,
    trace: LineWriter | None,
    started_at_s: float,
    stack: ExitStack | AsyncExitStack,
) -> list[RecordSink]:
    """`started_at_s`: of the gateway, on the monotonic clock. What has to be closed is, with
    `stack`."""
    sinks: list[RecordSink] = []
    if settings.log_level in ("debug", "info"):
        sinks.append(AccessLog(log, LogFormat(settings.log_format), settings.access_log_sample))
    if trace is not None:
        sinks.append(TraceFile(trace, started_at_s))
    if settings.otlp_endpoint is not None:
        from proxy.telemetry.otel_spans import exporting_to  # noqa: PLC0415 - needs an extra

        sinks.append(stack.enter_context(closing(exporting_to(settings.otlp_endpoint))))
    return sinks


def serving_loop_factory(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop]:
    """Of loops whose faults are in the log. Raises ClickException where there is none as wanted."""
    new_loop = loop_factory(settings.event_loop)

    def new_serving_loop() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        loop.set_exception_handler(log_loop_fault)
        return loop

    return new_serving_loop


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        request_s=settings.body_timeout,
        write_s=settings.write_timeout,
        idle_s=_KEEP_ALIVE_S,
    )


def settle_memory() -> None:
    """What exists now lives as long as the process: the collector need not walk it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def announce(
    settings: Settings, engines: Sequence[str], public: socket.socket, admin: socket.socket
) -> None:
    """To the log with which settings, and to standard output where."""
    _log.info(
        "settings: %s",
        " ".join(f"{row.variable}={row.value}" for row in settings_table(settings) if row.value),
    )
    _warn_of_few_descriptors(settings, len(engines))
    host, port = reachable(public)
    admin_host, admin_port = reachable(admin)
    places, workers = settings.places_in_all(len(engines)), settings.workers
    _say(
        f"Sluice {__version__} serves http://{host}:{port} in front of "
        f"{seats_in_words(settings, engines)}, {places} waiting places, "
        f"{settings.queue_timeout:g} s at most in the queue"
        f"{f', {workers} processes' if workers > 1 else ''}\n"
        f"Metrics and health: http://{admin_host}:{admin_port}/metrics, /status, /healthz, /readyz"
    )


def _say(text: str) -> None:
    """To standard output. On a full disk it is lost, as lines of the log are; requests go on."""
    try:
        click.echo(text)
    except OSError as error:
        _log.warning("standard output cannot be written to: %s", error)
        # What is buffered would fail again at the end, with an exit code of its own.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def seats_in_words(settings: Settings, engines: Sequence[str]) -> str:
    each = settings.max_in_flight
    if len(engines) == 1:
        return f"{engines[0]}: {each} seats"
    return f"{len(engines)} engines: {each} seats in each, {each * len(engines)} in all"


def reachable(bound: socket.socket) -> tuple[str, int]:
    """The listener's address as one would type it on this machine."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # a listener on every interface, shown, not bound, here
        host = "127.0.0.1"
    return (f"[{host}]" if ":" in host else host), port
