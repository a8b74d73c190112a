"""A loop that is held up is noticed."""

from __future__ import annotations

import asyncio

import pytest

from proxy.replay.client.lag import LoopLag
from tests.support.virtual_time import now, run


def test_a_loop_in_time_has_no_lag_and_one_that_is_held_up_has() -> None:
    held_up_s = 0.0

    async def scenario() -> LoopLag:
        nonlocal held_up_s
        lag = LoopLag(lambda: now() + held_up_s)
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(1.01)
        assert lag.p99_s == pytest.approx(0.0, abs=1e-9)
        held_up_s = 0.3
        await asyncio.sleep(0.05)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        return lag

    assert run(scenario()).worst_s == pytest.approx(0.3)


def test_a_replay_shorter_than_a_look_has_no_lag() -> None:
    assert LoopLag(lambda: 0.0).worst_s == LoopLag(lambda: 0.0).p99_s == 0.0
