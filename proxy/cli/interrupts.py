"""Ctrl-C before a command runs, and after it: the program ends at once, with exit code 130.

While modules are being imported an exception is no way to end. It leaves a traceback, and some of
what it passes through turns it into another one. Commands that run catch KeyboardInterrupt as
usual. Nothing heavy is imported here, for this is what has to be there first.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # importing typing would take longer than all the rest here
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED = 130
SAID = "interrupted"
_STANDARD_ERROR = 2


def end_at_once() -> None:
    """From now on, unless somebody has said that Ctrl-C is not to be heard, as `nohup` does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_as_usual() -> bool:
    """From now on KeyboardInterrupt; whether it was otherwise before."""
    if signal.getsignal(signal.SIGINT) is not _end:
        return False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return True


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(_STANDARD_ERROR, f"{SAID}\n".encode())
    os._exit(INTERRUPTED)
