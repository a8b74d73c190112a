from __future__ import annotations

import contextlib
import dataclasses

import pytest

from proxy.edge.engine import Engine, EngineState, LifeSign, OpenRequests
from proxy.upstream.address import UpstreamAddress
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import ScriptedApp


def test_an_engine_tells_its_state_at_the_moment_it_is_asked() -> None:
    states = iter([EngineState(None, False, "not asked yet"), EngineState(True, True, "")])
    address = UpstreamAddress.parse("http://engine.test")
    upstream = InMemoryUpstream(ScriptedApp())
    engine = Engine("engine", address, upstream, None, lambda: next(states))
    assert engine.state().up is None
    assert engine.state().ready


def test_an_engine_that_nobody_controls_takes_every_report() -> None:
    address = UpstreamAddress.parse("http://engine.test")
    upstream = InMemoryUpstream(ScriptedApp())
    Engine("engine", address, upstream, None, lambda: EngineState(True, True, "")).report(503)


def test_a_life_sign_is_told_once() -> None:
    sign = LifeSign()
    assert not sign.take()
    sign.seen = True
    assert sign.take()
    assert not sign.take()


@pytest.mark.parametrize("value", [Engine, EngineState])
def test_they_are_values(value: type) -> None:
    assert dataclasses.fields(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        EngineState(True, True, "").up = False  # type: ignore[misc]


def test_an_open_request_counts_until_it_is_over_however_it_ends() -> None:
    there = OpenRequests()
    with contextlib.suppress(ZeroDivisionError), there.one_more(), there.one_more():
        assert there.count == 2
        raise ZeroDivisionError
    assert there.count == 0
