"""The adaptive limit on a simulated engine: it finds what the engine can carry, and holds it.

The core is under more load than it can serve all the time, the engine is watched by the poller as
in the application, and what the engine can carry is known by computation:

- seats: the engine runs `max_num_seqs`, whoever is above them waits inside it.
- cache: a sequence with prompt p that grows to T tokens of output holds p + E[T^2] / (2 E[T]) on
  average, and half a block more; the limit lets the cache be 0.9 to 0.95 full.
- steps: a step takes p + q * n for n sequences; four times the best is where p + q * n = 4 (p + q).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from proxy.admission.limits.aimd import AimdLimit
from proxy.admission.limits.fixed import FixedLimit
from proxy.simulator.faults import Slow
from proxy.simulator.step_cost import StepCost
from tests.support.engine_load import Work, loaded
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.admission.limits.aimd import Move
    from proxy.vllm.poller import EngineStatus
    from tests.support.engine_load import Stand

MAXIMUM = 200
FROM_BELOW, FROM_ABOVE = MAXIMUM // 10, MAXIMUM
FOUND_WITHIN_S = 60.0
HELD_FOR_S = 120.0
NEVER_IDLE = 2 * MAXIMUM  # clients

FLAT = StepCost(base_s=0.05, prefill_token_s=20e-6, decode_sequence_s=50e-6)
STEEP = StepCost(base_s=0.02, prefill_token_s=0.0, decode_sequence_s=0.001)


@dataclass(frozen=True)
class Case:
    """An engine, what is asked of it, how many that makes, and how it loses half of what it has."""

    options: dict[str, object]
    work: Work
    knee: int
    halve: Callable[[Stand], Awaitable[None]]
    knee_when_halved: int


async def with_half_the_seats(stand: Stand) -> None:
    await stand.restart_engine(max_num_seqs=32)


async def with_half_the_cache(stand: Stand) -> None:
    await stand.restart_engine(kv_cache_tokens=8_000)


async def at_half_the_speed(stand: Stand) -> None:
    stand.engine.inject(Slow(2.0))


SEATS = Case(
    {"max_num_seqs": 64, "cost": FLAT, "kv_cache_tokens": 200_000},
    Work(prompt=20, shortest=20, longest=60),
    64,
    with_half_the_seats,
    32,
)
CACHE = Case(
    {"max_num_seqs": 256, "cost": FLAT, "kv_cache_tokens": 16_000, "max_model_len": 1000},
    Work(prompt=100, shortest=40, longest=120),
    98,  # 16,000 tokens * 0.925 / (100 + 43 + 8)
    with_half_the_cache,
    49,
)
STEPS = Case(
    {"max_num_seqs": 256, "cost": STEEP, "kv_cache_tokens": 200_000},
    Work(prompt=20, shortest=20, longest=60),
    64,  # 20 ms + 64 * 1 ms = 4 * (20 ms + 1 ms)
    at_half_the_speed,
    22,  # 2 * (20 ms + 22 * 1 ms), likewise
)
CASES = pytest.mark.parametrize(
    "case",
    [
        pytest.param(SEATS, id="seats"),
        pytest.param(CACHE, id="cache"),
        pytest.param(STEPS, id="steps"),
    ],
)


@dataclass
class Course:
    """Where the limit was each second, and how it came there."""

    seats: list[tuple[float, int]] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    def between(self, begin_s: float, end_s: float) -> list[int]:
        return [seats for at, seats in self.seats if begin_s <= at < end_s]

    def stays_near(self, knee: int, begin_s: float, end_s: float) -> bool:
        """Within a sixth, and a tenth on average."""
        seats = self.between(begin_s, end_s)
        mean = sum(seats) / len(seats)
        return all(abs(one - knee) <= knee / 6 for one in seats) and abs(mean - knee) <= knee / 10


def follow(stand: Stand, limit: AimdLimit) -> Course:
    """Wires the limit to the poller, as the application does."""
    course = Course()

    def on_reading(status: EngineStatus) -> None:
        if status.saturation is not None:
            move = limit.observe(status.saturation, stand.in_flight, now())
            if move is not None:
                course.moves.append(move)
        assert limit.floor <= limit.seats <= limit.maximum
        course.seats.append((now(), limit.seats))

    stand.on_reading.append(on_reading)
    return course


async def warm_up(stand: Stand, case: Case) -> float:
    """A quiet hour's traffic, in which the engine shows its best. When the load then begins."""
    stand.add_clients(1, case.work)
    await asyncio.sleep(20)
    stand.add_clients(NEVER_IDLE, case.work)
    return now()


@CASES
@pytest.mark.parametrize("start", [FROM_BELOW, FROM_ABOVE])
def test_it_finds_the_knee_within_a_minute_from_either_side_and_holds_it(
    case: Case, start: int
) -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM, start=start)
        async with loaded(limit, **case.options) as stand:
            course = follow(stand, limit)
            begin = await warm_up(stand, case)
            await asyncio.sleep(FOUND_WITHIN_S + HELD_FOR_S)
            found = begin + FOUND_WITHIN_S
            assert course.stays_near(case.knee, found, found + HELD_FOR_S), course.seats

    run(scenario())


@CASES
def test_it_finds_the_knee_again_when_the_engine_has_lost_half(case: Case) -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM)
        async with loaded(limit, **case.options) as stand:
            course = follow(stand, limit)
            await warm_up(stand, case)
            await asyncio.sleep(FOUND_WITHIN_S)
            await case.halve(stand)
            found = now() + FOUND_WITHIN_S
            await asyncio.sleep(FOUND_WITHIN_S + HELD_FOR_S)
            held = course.between(found, found + HELD_FOR_S)
            assert course.stays_near(case.knee_when_halved, found, found + HELD_FOR_S), held

    run(scenario())


def test_it_finds_back_when_the_engine_has_all_again() -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM)
        async with loaded(limit, **SEATS.options) as stand:
            course = follow(stand, limit)
            await stand.restart_engine(max_num_seqs=32)
            await warm_up(stand, SEATS)
            await asyncio.sleep(FOUND_WITHIN_S)
            assert course.stays_near(32, now() - 20, now())
            await stand.restart_engine(max_num_seqs=64)
            await asyncio.sleep(FOUND_WITHIN_S + HELD_FOR_S)
            assert course.stays_near(64, now() - HELD_FOR_S, now())

    run(scenario())


@CASES
def test_it_serves_as_much_as_a_fixed_limit_at_the_knee(case: Case) -> None:
    async def served(limit: AimdLimit | FixedLimit) -> int:
        async with loaded(limit, **case.options) as stand:
            if isinstance(limit, AimdLimit):
                follow(stand, limit)
            await warm_up(stand, case)
            await asyncio.sleep(FOUND_WITHIN_S)
            before = stand.completed
            await asyncio.sleep(HELD_FOR_S)
            return stand.completed - before

    at_the_knee = run(served(FixedLimit(case.knee)))
    assert run(served(AimdLimit(MAXIMUM))) >= 0.97 * at_the_knee


def test_on_an_engine_that_can_carry_the_maximum_it_stays_there() -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM)
        async with loaded(limit, **{**SEATS.options, "max_num_seqs": 256}) as stand:
            course = follow(stand, limit)
            await warm_up(stand, SEATS)
            await asyncio.sleep(FOUND_WITHIN_S + HELD_FOR_S)
            assert course.moves == []

    run(scenario())


def test_it_does_not_move_while_nobody_comes() -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM, start=50)
        async with loaded(limit, **SEATS.options) as stand:
            course = follow(stand, limit)
            stand.add_clients(5, SEATS.work)
            await asyncio.sleep(60)
            await stand.stop_clients()
            await asyncio.sleep(600)
            assert course.moves == []

    run(scenario())


def test_clients_that_all_leave_at_once_do_not_push_it_down() -> None:
    """Their places in the engine stay on the page of some versions until its next step."""

    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM, start=100)
        async with loaded(limit, **SEATS.options) as stand:
            course = follow(stand, limit)
            stand.add_clients(NEVER_IDLE, SEATS.work)
            await asyncio.sleep(2)
            stale = stand.engine.snapshot()
            await stand.stop_clients()
            stand.engine._frozen = stale  # running and waiting as they were
            moves = len(course.moves)
            await asyncio.sleep(600)
            assert stale.waiting > 0
            assert course.moves[moves:] == []

    run(scenario())


def test_each_move_says_why() -> None:
    async def scenario() -> None:
        limit = AimdLimit(MAXIMUM)
        async with loaded(limit, **CACHE.options) as stand:
            course = follow(stand, limit)
            await warm_up(stand, CACHE)
            await asyncio.sleep(FOUND_WITHIN_S)
            words = "\n".join(map(str, course.moves))
            assert "the engine preempts, " in words
            assert "its KV cache is " in words
            assert "seats in use, and the engine not full" in words
            assert len(course.moves) < FOUND_WITHIN_S / 2

    run(scenario())
