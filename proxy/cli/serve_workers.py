"""A gateway of several processes on one port (SLUICE_WORKERS): the parent's side.

The parent serves nothing but the admin listener. It is what a service manager knows: it passes on
the end it is told, and ends when the last worker has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING

import click
from prometheus_client import CollectorRegistry, ProcessCollector

from proxy.cli.connection_caps import admin_cap
from proxy.cli.serving import announce, connection_limits
from proxy.edge.listeners import listening
from proxy.edge.shared_port import another_of, keep_for_own
from proxy.edge.status.history import SAMPLE_EVERY_S
from proxy.edge.stop_signal import exit_at_once, stop_signal
from proxy.live_settings import LiveSettings
from proxy.telemetry.families import Family, families
from proxy.workers.admin import admin_of, facts_of
from proxy.workers.orders import Orders
from proxy.workers.roster import Roster
from proxy.workers.supervisor import StartError, Supervisor
from proxy.workers.worker_process import WorkerProcess

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.edge.status.facts import StatusFacts
    from proxy.settings import Settings

# After the drain timeout: for bytes in socket buffers, the lease that is given back, the log.
_ENDS_WITHIN_S = 10.0


async def supervise(settings: Settings, public: socket.socket, admin: socket.socket) -> None:
    """Until a signal comes and all workers have ended. Raises ClickException, for exit code 1, if
    they cannot be started, or did not all end in good order."""
    keep_for_own(public)
    started_at_s = time.monotonic()
    roster = Roster(_own_page())
    live = LiveSettings(settings)
    facts = facts_of(roster, settings, live)

    async def start(number: int) -> WorkerProcess:
        orders = Orders(settings, number, started_at_s, waits_for_seats=roster.has_seats())
        return await WorkerProcess.start(orders, another_of(public))

    supervisor = Supervisor(
        start, settings.workers, roster, settings.drain_timeout + _ENDS_WITHIN_S
    )

    def end_now(number: int) -> None:
        for pid in supervisor.kill():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        exit_at_once(number)

    stop = stop_signal(end_now)
    app = admin_of(
        roster, facts, lambda: roster.stopping and not roster.reports, live, settings.admin_token
    )
    sampling = asyncio.create_task(_sample(roster, facts), name="status")
    try:
        async with listening((app,), (admin,), connection_limits(settings), (admin_cap(),)):
            in_order = await supervisor.run(
                stop, lambda: announce(settings, _engines(roster), public, admin)
            )
    except StartError as error:
        raise click.ClickException(str(error)) from error
    finally:
        sampling.cancel()
    if not in_order:
        raise click.ClickException("not every worker ended in good order")


def _engines(roster: Roster) -> list[str]:
    return list(dict.fromkeys(name for report in roster.reports for name in report.engines))


async def _sample(roster: Roster, facts: StatusFacts) -> None:
    """Also keeps small what is lost with a worker that is killed."""
    while True:
        await asyncio.sleep(SAMPLE_EVERY_S)
        await roster.refresh()
        facts.sample()


def _own_page() -> Callable[[], tuple[Family, ...]]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return lambda: families(registry.collect())
