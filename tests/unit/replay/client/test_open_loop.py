"""Arrivals do not wait for answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.client.open_loop import play
from proxy.replay.client.tally import Tally
from proxy.replay.request_times import Objective
from tests.support.replay_upstream import Scripted, ScriptedPort, requester
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.replay.outcome import RequestRecord
    from proxy.upstream.port import UpstreamRequest

ARRIVALS = [Arrival(second / 10, 10, 3) for second in range(50)]


def test_requests_go_on_arriving_in_time_while_none_is_answered() -> None:
    upstream = ScriptedPort(lambda _request: Scripted(wait_s=100.0))
    records: list[RequestRecord] = []
    run(play(ARRIVALS, requester(upstream), now, records.append))
    assert upstream.peak == len(records) == 50
    late_s = [record.tries[0].began_s - record.arrived_s for record in records]
    assert max(late_s) <= 0.001
    assert min(late_s) >= 0


def test_a_request_starts_in_the_turn_of_the_event_loop_after_its_timer() -> None:
    """Where thousands of streams speak, a turn takes tens of milliseconds."""
    turns: list[float] = []
    seen: list[int] = []

    def count_turns() -> None:
        turns.append(now())
        if not seen:
            asyncio.get_running_loop().call_soon(count_turns)

    def answer(_request: UpstreamRequest) -> Scripted:
        seen.append(len(turns))
        return Scripted()

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(0.5, count_turns)
        arrivals = [Arrival(0.5, 10, 3)]
        await play(arrivals, requester(ScriptedPort(answer)), now, lambda _record: None)

    run(scenario())
    assert seen == [2]


def test_broken_off_it_ends_those_under_way_and_keeps_those_that_ended() -> None:
    upstream = ScriptedPort(lambda _request: Scripted(wait_s=1.0))
    records: list[RequestRecord] = []
    tally = Tally(Objective())

    async def scenario() -> None:
        playing = asyncio.create_task(
            play(ARRIVALS, requester(upstream, tally), now, records.append)
        )
        await asyncio.sleep(2.05)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing

    run(scenario())
    assert len(records) == 11
    assert (tally.offered, tally.cut, tally.running) == (21, 10, 0)
