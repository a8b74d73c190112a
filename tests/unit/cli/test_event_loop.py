from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING

import click
import pytest
import uvloop

from proxy.cli.event_loop import loop_factory

if TYPE_CHECKING:
    from proxy.cli.event_loop import EventLoop


@pytest.fixture
def without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


def kind_of_loop(wanted: EventLoop) -> type[asyncio.AbstractEventLoop]:
    async def running() -> type[asyncio.AbstractEventLoop]:
        return type(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=loop_factory(wanted)) as runner:
        return runner.run(running())


def test_uvloop_runs_unless_told_otherwise() -> None:
    assert kind_of_loop("auto") is uvloop.Loop
    assert kind_of_loop("uvloop") is uvloop.Loop


def test_asyncios_own_loop_runs_where_it_is_wanted() -> None:
    assert kind_of_loop("asyncio") is asyncio.SelectorEventLoop


@pytest.mark.usefixtures("without_uvloop")
def test_asyncios_own_loop_runs_where_there_is_no_other() -> None:
    assert kind_of_loop("auto") is asyncio.SelectorEventLoop


@pytest.mark.usefixtures("without_uvloop")
def test_a_loop_that_is_asked_for_and_not_there_stops_the_start() -> None:
    with pytest.raises(click.ClickException, match="SLUICE_EVENT_LOOP=uvloop: must be a loop"):
        loop_factory("uvloop")
