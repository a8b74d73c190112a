"""What `sluice up` does: one event loop runs the gateway and watches the engine.

    sluice up ── gateway (this process) ── HTTP ──> engine
        └─ supervisor ── keeper (a process) ── starts, ends ──┘

It owns the engine's process, its port and its output. The gateway is the one of `sluice serve` and
sees the engine come and go as any other: its health is polled, requests wait or are refused. Where
the supervisor gives up, the gateway drains and the exit code says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.engine_command import engine_command
from proxy.cli.serve import run_gateway
from proxy.cli.up_report import UpReport
from proxy.cli.up_settings import engine_environment, plan_up, read_arguments
from proxy.config import variable_name
from proxy.supervision.engine_process import EngineProcess
from proxy.supervision.reserved_port import LOOPBACK, reserved_port
from proxy.supervision.restart_policy import RestartPolicy
from proxy.supervision.supervisor import Supervisor
from proxy.telemetry.line_writer import LineWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from proxy.app import Application
    from proxy.cli.up_settings import UpPlan
    from proxy.supervision.restart_policy import Death

_log = logging.getLogger("sluice.up")

ENDED, OUT_OF_MEMORY, GAVE_UP = 0, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of the command besides those that are settings."""

    written: str | None = None
    engine_port: int = 0
    engine_log: Path | None = None
    give_up_after: int = 5
    first_delay: float = 1.0
    stop_timeout: float = 20.0
    dry_run: bool = False
    as_json: bool = False


def answer(words: tuple[str, ...], overrides: dict[str, Any], options: UpOptions) -> int:
    """The exit code. Raises SettingsError and ClickException before anything is started."""
    arguments = read_arguments(words)
    head = engine_command(options.written)
    with ExitStack() as stack:
        port = stack.enter_context(_port(options.engine_port))
        plan = plan_up(head, arguments, overrides, port, os.environ)
        if options.dry_run:
            click.echo(json.dumps(as_object(plan), indent=2) if options.as_json else as_page(plan))
            return ENDED
        raw = stack.enter_context(_engine_log(options.engine_log))
        beside = _Beside(plan, options, raw)
        run_gateway(plan.settings, beside.run)
    return exit_code(beside.last_death)


def exit_code(death: Death | None) -> int:
    """`death`: the one after which it gave up, if it did."""
    if death is None:
        return ENDED
    return OUT_OF_MEMORY if death.oom else GAVE_UP


def as_object(plan: UpPlan) -> dict[str, Any]:
    """What --dry-run --json prints; no secret is in it."""
    return {
        "command": plan.command_line,
        "environment": dict(one.shown.split("=", 1) for one in plan.derived),
        "seats": plan.settings.max_in_flight,
        "address": f"{plan.settings.host}:{plan.settings.port}",
        "warnings": list(plan.warnings),
    }


def as_page(plan: UpPlan) -> str:
    """The same as two commands that a shell takes."""
    settings = plan.settings
    width = max(len(one.shown) for one in plan.derived)
    where = f"{settings.host}:{settings.port}"
    seats = f"{variable_name('max_in_flight')} is {settings.max_in_flight}"
    return "\n".join(
        [
            "# the engine, where only this machine reaches it",
            plan.command_line,
            "",
            f"# the gateway, for clients at {where}; {seats}",
            *(f"export {one.shown:<{width}}  # {one.why}" for one in plan.derived),
            "sluice serve",
            *(f"\n# warning: {warning}" for warning in plan.warnings),
        ]
    )


class _Beside:
    """What runs beside the gateway: the supervisor of the engine."""

    def __init__(self, plan: UpPlan, options: UpOptions, raw: LineWriter | None) -> None:
        self._plan = plan
        self._options = options
        self._raw = raw
        self._environment = engine_environment(os.environ)
        self.last_death: Death | None = None

    @contextlib.asynccontextmanager
    async def run(self, application: Application, log: LineWriter) -> AsyncIterator[Supervisor]:
        """From before the first request to after the last."""
        for warning in self._plan.warnings:
            _log.warning("%s", warning)
        options = self._options
        supervisor = Supervisor(
            self._start,
            RestartPolicy(
                random.Random(),
                give_up_after=options.give_up_after,
                first_delay_s=options.first_delay,
            ),
            UpReport(self._plan, log, self._raw),
            lambda: any(view.up is True for view in application.fleet.view().values()),
            application.fleet.look_now,
            asyncio.get_running_loop().time,
        )
        supervisor.start()
        try:
            yield supervisor
        finally:
            self.last_death = supervisor.last_death
            await supervisor.stop(options.stop_timeout)
            _log.info("the engine has ended")

    async def _start(self, take: Callable[[bytes], None]) -> EngineProcess:
        return await EngineProcess.start(self._plan.command, self._environment, take)


@contextlib.contextmanager
def _port(port: int) -> Iterator[int]:
    try:
        with reserved_port(port) as reserved:
            yield reserved
    except OSError as error:
        raise click.ClickException(
            f"--engine-port {port}: cannot be had on {LOOPBACK}: {error.strerror or error}"
        ) from None


@contextlib.contextmanager
def _engine_log(path: Path | None) -> Iterator[LineWriter | None]:
    if path is None:
        yield None
        return
    try:
        writer = LineWriter.to_file(path)
    except OSError as error:
        raise click.ClickException(f"--engine-log {path}: {error.strerror or error}") from None
    with closing(writer):
        yield writer
