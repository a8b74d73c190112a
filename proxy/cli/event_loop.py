"""Which event loop a process runs on: uvloop, or asyncio's own where that is wanted, or all there
is."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Callable

EventLoop = Literal["auto", "uvloop", "asyncio"]


def has_uvloop() -> bool:
    """There are machines and systems for which nobody builds it."""
    return importlib.util.find_spec("uvloop") is not None


def loop_factory(wanted: EventLoop = "auto") -> Callable[[], asyncio.AbstractEventLoop]:
    """`auto` is uvloop where it is installed.

    Raises ClickException where it has to be and is not.
    """
    if wanted == "asyncio" or (wanted == "auto" and not has_uvloop()):
        return asyncio.new_event_loop
    if not has_uvloop():
        raise click.ClickException(
            "SLUICE_EVENT_LOOP=uvloop: must be a loop that is installed; uvloop is not"
        )
    import uvloop  # noqa: PLC0415 - not everywhere

    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop
