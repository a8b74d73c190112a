"""Where exceptions end that nobody catches: in the log, and there without anybody's data.

Python and asyncio would print them with the texts of exceptions and with the arguments of
callbacks, which may be a client's bytes.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

from proxy.telemetry.redaction import redact
from proxy.telemetry.traceback_text import traceback_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import TracebackType

_log = logging.getLogger("sluice.faults")


@contextlib.contextmanager
def faults_in_the_log() -> Iterator[None]:
    """Those of threads, and those from where no exception can be raised."""
    before = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = _in_thread, _unraisable
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = before


def log_loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An exception handler for event loops. What is said of a fault ends where values begin."""
    said = str(context.get("message", "")).partition(" in callback")[0].partition("<")[0].strip()
    error = context.get("exception")
    if "socket" in context and isinstance(error, OSError):  # a listener's, not a fault of ours
        _log.warning("%s: %s", said, error.strerror)
        return
    task = context.get("task") or context.get("future")
    name = getattr(task, "get_name", str)()
    _log.error(
        "%s%s",
        said or "A fault in the event loop",
        f" ({name})" if name else "",
        exc_info=error,
    )


def print_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A sys.excepthook, by which a process ends: its log is closed by then."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        sys.stderr.write(redact(traceback_text(error)))


def _in_thread(fault: threading.ExceptHookArgs) -> None:
    name = "" if fault.thread is None else f" {fault.thread.name!r}"
    _log.error("The thread%s ended by a fault", name, exc_info=fault.exc_value)


def _unraisable(fault: sys.UnraisableHookArgs) -> None:
    _log.error("A fault where no exception can be raised", exc_info=fault.exc_value)
