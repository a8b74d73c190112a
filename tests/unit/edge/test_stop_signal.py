from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

from proxy.edge.stop_signal import exit_at_once, stop_signal

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def heard() -> Iterator[tuple[asyncio.Future[None], list[int]]]:
    """The signal, and the numbers of those that came later; the handlers are taken away."""
    later: list[int] = []
    yield stop_signal(later.append), later
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_and_every_later_one_is_told(number: signal.Signals) -> None:
    async def scenario() -> None:
        with heard() as (stop, later):
            os.kill(os.getpid(), number)
            await stop
            assert later == []
            os.kill(os.getpid(), signal.SIGINT)
            while not later:
                await asyncio.sleep(0)
            assert later == [signal.SIGINT]

    asyncio.run(scenario())


def test_a_hangup_is_only_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with heard() as (stop, _):
            os.kill(os.getpid(), signal.SIGHUP)
            while "SIGHUP" not in caplog.text:
                await asyncio.sleep(0)
            assert not stop.done()

    asyncio.run(scenario())


class Exit(Exception):
    """Stands for the end of the process."""


def test_an_end_at_once_has_the_status_that_the_sender_expects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[object] = []

    def end(status: int) -> None:
        raise Exit(status)

    monkeypatch.setattr(logging, "shutdown", lambda: steps.append("logged"))
    monkeypatch.setattr(signal, "signal", lambda *how: steps.append(how))
    monkeypatch.setattr(signal, "raise_signal", steps.append)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Exit) as caught:
        exit_at_once(signal.SIGTERM)
    by_default = (signal.SIGTERM, signal.SIG_DFL)
    assert steps == ["logged", by_default, signal.SIGTERM]
    assert caught.value.args == (128 + signal.SIGTERM,)
