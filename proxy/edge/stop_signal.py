"""SIGTERM and SIGINT: the first asks for an end in good order, the second for one at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("sluice.server")

_NO_RELOAD = "SIGHUP: settings are read once, at start; restart to change them"


def exit_at_once(number: int) -> None:
    """As the signal's default action would, so that whoever sent it sees the usual status."""
    _log.warning("second signal: exiting at once")
    logging.shutdown()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)  # still here: for process 1 of a container there is no default action


def stop_signal(at_second: Callable[[int], None] = exit_at_once) -> asyncio.Future[None]:
    """Done at the first SIGTERM or SIGINT; `at_second` is called with the number of any later one.

    SIGHUP, which asks many a daemon to read its settings anew, must not end this one.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            at_second(number)
        else:
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGHUP, _log.warning, _NO_RELOAD)
    return stop
