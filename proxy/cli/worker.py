"""One worker of a gateway that is several processes. Started by proxy.workers.worker_process, not
by people: `python -m proxy.cli.worker CHANNEL LISTENER`, the numbers of two sockets that it was
handed; its orders are on standard input.

A worker serves the public listener only, and tells its parent what it does. SIGTERM lets it drain,
and so does the end of its parent, however that ends; a second signal changes nothing, for whoever
stops a service may signal each of its processes, and the parent passes on what it is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from proxy.app import build
from proxy.cli.connection_caps import most_to_engines, public_cap
from proxy.cli.serving import (
    connection_limits,
    open_trace,
    record_sinks,
    serving_loop_factory,
    settle_memory,
    start_log,
)
from proxy.edge.listening_socket import ListeningSocket
from proxy.edge.server import Server
from proxy.telemetry.last_resort import print_uncaught
from proxy.workers.channel import WorkerEnd
from proxy.workers.orders import Orders
from proxy.workers.report import WorkerReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.app import Application
    from proxy.edge.records import RecordSink

_log = logging.getLogger("sluice.workers")

_LOOKS_EVERY_S = 0.05
# A store that answers does so well within it: its first answer is no news.
_SAYS_AFTER_S = 1.0


def main(arguments: Sequence[str]) -> None:
    try:
        orders = Orders.read(sys.stdin.buffer.read())
    except msgspec.DecodeError:
        raise TypeError("a worker is started by its gateway, not by hand") from None
    channel = socket.socket(fileno=int(arguments[0]))
    listener = ListeningSocket(fileno=int(arguments[1]))
    settings = orders.settings
    with ExitStack() as stack:
        log, trace = start_log(settings, stack), open_trace(settings, stack)
        sinks = record_sinks(settings, log, trace, orders.started_at_s, stack)
        with asyncio.Runner(loop_factory=serving_loop_factory(settings)) as runner:
            runner.run(work(orders, sinks, channel, listener))


async def work(
    orders: Orders, sinks: Sequence[RecordSink], channel: socket.socket, listener: socket.socket
) -> None:
    """Returns when it has drained, or when it is not needed any more."""
    settings = orders.settings
    application = build(settings, sinks)
    parent = await WorkerEnd.open(
        channel,
        lambda: report_of(application),
        lambda changes: changes.adopted_by(application.control),
    )
    refused = application.metrics.connection_refused
    public_connections = public_cap(settings, refused, application.fleet.most_connections)
    application.engine_clients.keep_within(most_to_engines(public_connections))
    server = Server(
        apps=(application.public,),
        drain=application.drain,
        begin_drain=application.begin_drain,
        drain_timeout_s=settings.drain_timeout,
        connection_limits=connection_limits(settings),
        caps=(public_connections,),
        at_second_signal=lambda _: None,
    )

    def ready() -> None:
        settle_memory()
        parent.tell()

    answering = asyncio.create_task(_answer(parent), name="answer the parent")
    try:
        await application.start()
        if orders.waits_for_seats:
            await until_unbarred(application.facts.bar)
        await server.run((listener,), on_ready=ready)
    finally:
        await application.stop()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        parent.tell()
        await parent.close()


async def until_unbarred(bar: Callable[[], str]) -> None:
    """Until somebody could be let in here: as long as `bar` says why nobody can, the kernel is to
    deal no connections to this worker, for the others have seats for them.

    Not bounded, for nobody needs it. A signal, or the parent's end, ends the process.
    """
    loop = asyncio.get_running_loop()
    says_at = loop.time() + _SAYS_AFTER_S
    has_said = False
    while barred := bar():
        if not has_said and loop.time() >= says_at:
            has_said = True
            _log.warning("this worker takes no connections yet, the others do: %s", barred)
        await asyncio.sleep(_LOOKS_EVERY_S)


async def _answer(parent: WorkerEnd) -> None:
    try:
        await parent.answer()
    except Exception:  # noqa: BLE001 - it drains and is followed by another, whatever it was
        _log.exception("this worker cannot tell how it is, and ends")
    os.kill(os.getpid(), signal.SIGTERM)  # nobody is left who could stop us


def report_of(application: Application) -> WorkerReport:
    """What this worker is and has done, now."""
    facts = application.facts
    return WorkerReport(
        page=application.metrics.families(),
        admission=facts.admission(),
        totals=facts.totals(),
        engines=dict(facts.engine_states()),
        views=dict(facts.views()),
        binding_limit=facts.binding_limit(),
        tenants=tuple(facts.tenants()),
        refusals=tuple(map(dict, facts.last_refusals())),
        sharing=facts.sharing and facts.sharing(),
        running=application.drain.running,
    )


if __name__ == "__main__":
    sys.excepthook = print_uncaught
    main(sys.argv[1:])
