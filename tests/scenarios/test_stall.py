"""An engine that is stuck, slow, busy with one long prompt, or idle behind an old page.

The simulated engine serves its real metrics page to the real poller; the core is told as the
application tells it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.outcome import Reason, Refused
from proxy.simulator.faults import Slow, Stall
from proxy.simulator.step_cost import StepCost
from tests.support.engine_load import Work, loaded
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from tests.support.engine_load import Stand

SEATS = 8
ENGINE = {"max_num_seqs": 16, "cost": StepCost(base_s=0.05), "kv_cache_tokens": 200_000}
SEEN_WITHIN_S = 12.5  # ten seconds without a step, and a poll at either end


async def refusal_of(stand: Stand) -> Reason | None:
    """Why a newcomer is refused at once; None if it is not."""
    began = now()
    try:
        async with asyncio.timeout(0.001):
            await stand.ask()
    except Refused as refusal:
        assert now() == began
        return refusal.reason
    except TimeoutError:
        return None
    raise AssertionError("no engine is that quick")


async def stuck(stand: Stand) -> None:
    """Under load, then stalled for long enough to be seen."""
    stand.add_clients(2 * SEATS)
    await asyncio.sleep(5)
    stand.engine.inject(Stall())
    await asyncio.sleep(SEEN_WITHIN_S)


def test_a_stuck_engine_refuses_newcomers_at_once_and_those_who_wait() -> None:
    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            await stuck(stand)
            assert stand.poller.status.up is True
            assert stand.poller.status.stalled
            assert await refusal_of(stand) is Reason.UPSTREAM_STALLED
            assert len(stand.refused) >= SEATS
            assert set(stand.refused) == {Reason.UPSTREAM_STALLED}
            assert stand.controller.snapshot().queue_depth == 0

    run(scenario())


def test_nobody_is_refused_before_ten_seconds_have_passed() -> None:
    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            stand.add_clients(2 * SEATS)
            await asyncio.sleep(5)
            stand.engine.inject(Stall())
            await asyncio.sleep(9.9)
            assert stand.poller.status.ready
            assert stand.refused == []

    run(scenario())


def test_requests_pass_again_within_a_poll_once_it_moves() -> None:
    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            await stuck(stand)
            before = stand.completed
            stand.engine.resume()
            await asyncio.sleep(1.1)
            assert stand.poller.status.ready
            assert await refusal_of(stand) is None
            await asyncio.sleep(10)
            assert stand.completed > before

    run(scenario())


def test_one_whose_clients_have_all_given_up_is_still_stuck() -> None:
    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            await stuck(stand)
            await stand.stop_clients()
            await asyncio.sleep(30)
            assert await refusal_of(stand) is Reason.UPSTREAM_STALLED

    run(scenario())


@pytest.mark.parametrize("factor", [20, 100, 180])
def test_a_slow_engine_is_not_stuck(factor: float) -> None:
    """At 180 a step takes nine seconds."""

    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            stand.add_clients(2 * SEATS)
            await asyncio.sleep(5)
            stand.engine.inject(Slow(factor))
            await asyncio.sleep(300)
            assert stand.refused == []

    run(scenario())


def test_one_long_prompt_in_many_chunks_is_not_a_stall() -> None:
    """No token comes out for half a minute, and the heartbeat stands still."""

    async def scenario() -> None:
        slow_prefill = StepCost(base_s=0.0, prefill_token_s=0.005)
        engine = {**ENGINE, "cost": slow_prefill, "max_num_batched_tokens": 512}
        async with loaded(FixedLimit(SEATS), **engine) as stand:
            stand.add_clients(1, Work(prompt=6_000, shortest=5, longest=5))
            beats = []
            for _ in range(25):
                await asyncio.sleep(1)
                status = stand.poller.status
                assert status.ready
                if status.metrics is not None:
                    beats.append(status.metrics.iterations_total)
            assert set(beats) == {0}

    run(scenario())


def test_an_idle_engine_that_shows_what_was_given_up_is_not_stuck() -> None:
    """After a storm whose clients all left at once the page of some versions stays as it was."""

    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            stand.add_clients(2 * SEATS)
            await asyncio.sleep(5)
            stale = stand.engine.snapshot()
            await stand.stop_clients()
            stand.engine._frozen = stale
            await asyncio.sleep(600)
            status = stand.poller.status
            assert status.metrics is not None
            assert status.metrics.running == stale.running > 0
            assert status.ready
            await stand.ask()

    run(scenario())
