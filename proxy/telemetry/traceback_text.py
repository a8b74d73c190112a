"""Tracebacks for the log: where something failed, and how, but never with whose data.

The text of an exception often quotes what it met: a KeyError the key, a decoder the bytes. In a
gateway that may be a prompt or a header. So the text is shown of those errors only whose text is
the system's own or ours; of others the code that raised it, which is shown, has to do.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = "proxy."
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"
# Deeper than anything honest; a chain may be a circle.
_MOST_LINKS = 20


def traceback_text(error: BaseException) -> str:
    """As Python would print it, line end included."""
    return "".join(_chain(error, _MOST_LINKS))


def shown_error(error: BaseException) -> str:
    """Its kind, and its text where nobody's data can be in it."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    text = _safe_text(error)
    return f"{name}: {text}" if text else name


def _safe_text(error: BaseException) -> str:
    if isinstance(error, OSError):  # without the file's name, or the like
        return f"[Errno {error.errno}] {error.strerror}" if error.errno is not None else ""
    return str(error) if type(error).__module__.startswith(_OURS) else ""


def _chain(error: BaseException, links: int) -> Iterator[str]:
    if links and error.__cause__ is not None:
        yield from _chain(error.__cause__, links - 1)
        yield _CAUSED
    elif links and error.__context__ is not None and not error.__suppress_context__:
        yield from _chain(error.__context__, links - 1)
        yield _MEANWHILE
    yield "Traceback (most recent call last):\n"
    yield from traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__)).format()
    yield f"{shown_error(error)}\n"
    if links and isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from (f"  | {line}\n" for line in "".join(_chain(one, links - 1)).splitlines())
