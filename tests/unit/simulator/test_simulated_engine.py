from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.faults import Die, OutOfMemory, ResetStreams, Slow, Stall, TimedFault
from proxy.simulator.generation import GenerationAbortedError, Output
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.sequence import Sequence
from proxy.simulator.simulated_engine import WATCHDOG_S, QueueFullError, SimulatedEngine
from proxy.simulator.step_cost import StepCost
from proxy.simulator.text import Answer
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.simulator.log_lines import LogLine

# One second a step, so that moments are easy to tell.
SECONDS = StepCost(base_s=1.0, prefill_token_s=0.0, decode_sequence_s=0.0)


def options(**others: object) -> SimulatorOptions:
    return SimulatorOptions(**({"cost": SECONDS, "max_num_seqs": 2} | others))


def output(max_tokens: int = 3) -> Output:
    return Output(Sequence(4, max_tokens), Answer.to_prompt(b"hello", 0, 256))


def test_it_takes_the_time_that_its_steps_take() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            await engine.generate([output(max_tokens=3)], stream=False).done()
            assert now() == 3.0
            await asyncio.sleep(10)
            await engine.generate([output(max_tokens=2)], stream=False).done()
            assert now() == 15.0

    run(scenario())


def test_a_stream_is_told_of_each_token_when_it_comes() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            generation = engine.generate([output(max_tokens=3)], stream=True)
            moments = [(now(), one.delta()) async for _, one in generation.deltas()]
            assert [at for at, _ in moments] == [1.0, 2.0, 3.0]
            assert "".join(text for _, text in moments) == generation.outputs[0].text

    run(scenario())


def test_more_than_max_num_seqs_wait_their_turn() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            four = [engine.generate([output()], stream=False) for _ in range(4)]
            await asyncio.sleep(0.5)
            assert (engine.snapshot().running, engine.snapshot().waiting) == (2, 2)
            await asyncio.gather(*(generation.done() for generation in four))
            assert now() == 6.0

    run(scenario())


def test_steps_shorter_than_a_timer_still_take_their_time_together() -> None:
    async def scenario() -> None:
        quick = StepCost(base_s=0.0001, prefill_token_s=0.0, decode_sequence_s=0.0)
        async with SimulatedEngine(options(cost=quick)) as engine:
            await engine.generate([output(max_tokens=1000)], stream=False).done()
            assert now() == pytest.approx(0.1, abs=0.001)

    run(scenario())


def test_free_steps_take_no_time_and_let_others_run() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options(cost=StepCost(speed=float("inf")))) as engine:
            long = engine.generate([output(max_tokens=1000)], stream=False)
            short = engine.generate([output(max_tokens=1)], stream=False)
            await short.done()
            assert not long.finished
            await long.done()
            assert now() == 0.0

    run(scenario())


def test_an_abort_frees_the_seat_at_once() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options(max_num_seqs=1)) as engine:
            first = engine.generate([output(max_tokens=100)], stream=True)
            second = engine.generate([output(max_tokens=2)], stream=False)
            await asyncio.sleep(1.5)
            first.abort()
            assert engine.snapshot().running == 0
            await second.done()
            assert now() == 4.0
            assert engine.snapshot().aborted == 1
            with pytest.raises(GenerationAbortedError):
                await first.done()

    run(scenario())


def test_the_queue_bound_counts_sequences_waiting_and_running() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options(max_num_queued_reqs=3)) as engine:
            engine.generate([output(), output()], stream=False, n=2)
            engine.check_admission(1)
            with pytest.raises(QueueFullError):
                engine.check_admission(2)
            assert engine.rejections == 1

    run(scenario())


def test_n_is_counted_once_for_each_prompt() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            engine.generate([output() for _ in range(6)], stream=False, n=3)
            assert (engine.counters.request_n.count, engine.counters.request_n.sum) == (2, 6.0)

    run(scenario())


def test_a_stalled_engine_goes_on_after_its_time() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            generation = engine.generate([output(max_tokens=3)], stream=False)
            await asyncio.sleep(1.5)
            engine.inject(Stall(for_s=10.0))
            await generation.done()
            assert now() == pytest.approx(12.5)

    run(scenario())


@pytest.mark.parametrize("ended_early", [True, False])
def test_the_end_of_one_stall_is_not_that_of_the_next(ended_early: bool) -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            engine.inject(Stall(for_s=10.0))
            if ended_early:
                engine.recover()
            engine.inject(Stall())
            await asyncio.sleep(60)
            assert engine.snapshot().stalled

    run(scenario())


def test_a_stalled_engine_publishes_what_it_last_knew() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            engine.generate([output()], stream=False)
            await asyncio.sleep(0.5)
            engine.inject(Stall())
            engine.generate([output(), output()], stream=False)
            assert engine.published().waiting == 0
            assert engine.snapshot().waiting == 2
            engine.resume()
            assert engine.published().waiting == 2

    run(scenario())


def test_faults_set_in_at_their_time() -> None:
    async def scenario() -> None:
        faults = (TimedFault(Slow(5.0)), TimedFault(Stall(), at_s=7.0))
        async with SimulatedEngine(options(faults=faults)) as engine:
            generation = engine.generate([output(max_tokens=3)], stream=False)
            await asyncio.sleep(60)
            assert engine.snapshot().stalled
            assert generation.completion_tokens == 2

    run(scenario())


def test_a_death_fails_everybody_and_ends_in_an_exit() -> None:
    async def scenario() -> None:
        lines: list[LogLine] = []
        async with SimulatedEngine(options(), lines.append) as engine:
            three = [engine.generate([output()], stream=False) for _ in range(3)]
            engine.inject(Die())
            for generation in three:
                with pytest.raises(EngineDeadError):
                    await generation.done()
            with pytest.raises(EngineDeadError):
                engine.check_admission(1)
            assert not engine.exited
            await asyncio.sleep(WATCHDOG_S)
            assert engine.exited
        assert any("EngineDeadError" in line.text for line in lines)

    run(scenario())


def test_out_of_memory_kills_it_and_says_so_in_the_log() -> None:
    async def scenario() -> None:
        lines: list[LogLine] = []
        faults = (TimedFault(OutOfMemory(above_prefill_tokens=7)),)
        async with SimulatedEngine(options(faults=faults), lines.append) as engine:
            alone = engine.generate([output(max_tokens=1)], stream=False)
            await alone.done()
            together = engine.generate([output(), output()], stream=False)
            with pytest.raises(EngineDeadError):
                await together.done()
        assert any("torch.OutOfMemoryError: CUDA out of memory" in line.text for line in lines)

    run(scenario())


def test_it_lives_on_dead_when_told_so() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options(keep_alive_on_engine_death=True)) as engine:
            engine.inject(Die())
            await asyncio.sleep(60)
            assert engine.dead
            assert not engine.exited

    run(scenario())


def test_recovery_ends_every_fault_but_those_to_come() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            for fault in (Stall(), Slow(9.0), ResetStreams(1)):
                engine.inject(fault)
            engine.schedule(TimedFault(Stall(), at_s=100.0))
            engine.recover()
            generation = engine.generate([output(max_tokens=3)], stream=True)
            assert generation.reset_after is None
            await generation.done()
            assert now() == 3.0
            await asyncio.sleep(100)
            assert engine.snapshot().stalled

    run(scenario())


def test_only_streams_that_begin_after_a_reset_fault_have_it() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            before = engine.generate([output()], stream=True)
            engine.inject(ResetStreams(1))
            assert before.reset_after is None
            assert engine.generate([output()], stream=True).reset_after == 1
            assert engine.generate([output()], stream=False).reset_after is None

    run(scenario())


def test_a_restarted_engine_is_as_new() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options(faults=(TimedFault(Die(), at_s=1.0),))) as engine:
            await asyncio.sleep(30)
            assert engine.exited
            await engine.restart()
            await engine.generate([output(max_tokens=2)], stream=False).done()
            assert now() == 32.0
            await asyncio.sleep(30)
            assert not engine.dead

    run(scenario())


def test_stopping_ends_what_is_unfinished_as_it_is() -> None:
    async def scenario() -> None:
        engine = SimulatedEngine(options())
        await engine.start()
        plain = engine.generate([output()], stream=False)
        stream = engine.generate([output()], stream=True)
        waiting = engine.generate([output()], stream=True)
        await asyncio.sleep(1.5)
        await engine.stop()
        await plain.done()
        told = [(one.delta(), one.finish_reason) async for _, one in stream.deltas()]
        assert told == [(stream.outputs[0].text, "abort")]
        assert [one.delta() async for _, one in waiting.deltas()] == [""]
        assert engine.snapshot().blocks_used == 0
        with pytest.raises(EngineDeadError):
            engine.check_admission(1)
        await engine.stop()

    run(scenario())


def test_starting_twice_starts_once() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(options()) as engine:
            await engine.start()
            await engine.generate([output(max_tokens=2)], stream=False).done()
            assert now() == 2.0

    run(scenario())
