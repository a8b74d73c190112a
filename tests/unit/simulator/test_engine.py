from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.simulator.engine import (
    Engine,
    EngineDeadError,
    EngineOutOfMemoryError,
    EngineSnapshot,
    Step,
)
from proxy.simulator.engine_options import EngineOptions
from proxy.simulator.faults import Die, OutOfMemory, ResetStreams, Slow, Stall
from proxy.simulator.sequence import FinishReason, Sequence
from proxy.simulator.step_cost import StepCost

SMALL = EngineOptions(
    max_num_seqs=4, max_num_batched_tokens=64, max_model_len=256, num_blocks=64, block_size=16
)


def submitted(engine: Engine, *sequences: Sequence) -> list[Sequence]:
    for sequence in sequences:
        engine.submit(sequence)
    return list(sequences)


def run_dry(engine: Engine) -> list[Step]:
    """Steps until there is nothing to do."""
    steps = []
    while (step := engine.step()) is not None:
        steps.append(step)
    return steps


def held(sequences: list[Sequence]) -> int:
    return sum(sequence.blocks for sequence in sequences)


# Prefill and decode


def test_a_prompt_gives_its_first_token_when_its_prefill_ends() -> None:
    engine = Engine(SMALL)
    (sequence,) = submitted(engine, Sequence(prompt_tokens=30, max_tokens=3))
    step = engine.step()
    assert step is not None
    assert (step.prefill_tokens, step.decode_sequences, step.advanced) == (30, 0, [sequence])
    assert sequence.generated == 1
    assert sequence.first_token_s == engine.now_s


def test_a_step_that_brings_no_token_out_is_not_counted() -> None:
    """As vLLM has it: a prefill in many chunks stands still on its page but for the cache."""
    engine = Engine(SMALL)
    submitted(engine, Sequence(prompt_tokens=150, max_tokens=2))
    counted, usage = [], []
    for _ in range(4):
        engine.step()
        counted.append(engine.counters.iteration_tokens.count)
        usage.append(engine.snapshot().kv_cache_usage)
    assert counted == [0, 0, 1, 2]
    assert 0 < usage[0] < usage[1] < usage[2]


def test_decode_gives_every_running_sequence_one_token_a_step() -> None:
    engine = Engine(SMALL)
    sequences = submitted(engine, *(Sequence(10, 5) for _ in range(3)))
    engine.step()
    step = engine.step()
    assert step is not None
    assert (step.prefill_tokens, step.decode_sequences) == (0, 3)
    assert [sequence.generated for sequence in sequences] == [2, 2, 2]


def test_sequences_finish_at_their_limit_or_by_themselves() -> None:
    engine = Engine(SMALL)
    cut, ended = submitted(engine, Sequence(10, 5), Sequence(10, 5, stop_after=2))
    run_dry(engine)
    assert (cut.generated, cut.finish_reason) == (5, FinishReason.LENGTH)
    assert (ended.generated, ended.finish_reason) == (2, FinishReason.STOP)
    assert engine.counters.finished[FinishReason.LENGTH] == 1
    assert engine.counters.finished[FinishReason.STOP] == 1


def test_a_pooling_sequence_is_over_with_its_prefill() -> None:
    engine = Engine(SMALL)
    (sequence,) = submitted(engine, Sequence(100, max_tokens=0))
    run_dry(engine)
    assert (sequence.generated, sequence.finish_reason) == (0, FinishReason.STOP)
    assert engine.counters.generation_tokens == 0
    assert engine.counters.prompt_tokens == 100


def test_a_long_prompt_is_computed_in_chunks_while_others_decode() -> None:
    engine = Engine(SMALL)
    submitted(engine, Sequence(10, 50))
    engine.step()
    (long,) = submitted(engine, Sequence(200, 5))
    steps = [engine.step() for _ in range(4)]
    assert [step.prefill_tokens for step in steps if step] == [63, 63, 63, 11]
    assert [step.decode_sequences for step in steps if step] == [1, 1, 1, 1]
    assert long.generated == 1


def test_without_chunks_a_prompt_waits_for_a_step_that_takes_all_of_it() -> None:
    options = dataclasses.replace(SMALL, max_num_batched_tokens=256, chunked_prefill=False)
    engine = Engine(options)
    first, second = submitted(engine, Sequence(200, 2), Sequence(100, 2))
    step = engine.step()
    assert step is not None
    assert step.prefill_tokens == 200
    step = engine.step()
    assert step is not None
    assert (step.prefill_tokens, step.decode_sequences) == (100, 1)
    assert (first.generated, second.generated) == (2, 1)


@pytest.mark.parametrize("chunked", [True, False])
def test_chunked_prefill_bounds_the_time_of_a_step(chunked: bool) -> None:
    cost = StepCost(base_s=0.01, prefill_token_s=0.001, decode_sequence_s=0.0)
    batched = 64 if chunked else 256
    options = dataclasses.replace(
        SMALL, max_num_batched_tokens=batched, chunked_prefill=chunked, cost=cost
    )
    engine = Engine(options)
    submitted(engine, Sequence(10, 20), Sequence(250, 5))
    slowest_s = max(step.duration_s for step in run_dry(engine))
    assert (slowest_s <= 0.01 + 64 * 0.001) is chunked


def test_a_step_never_exceeds_its_token_budget() -> None:
    engine = Engine(SMALL)
    submitted(engine, *(Sequence(60, 8) for _ in range(10)))
    for step in run_dry(engine):
        assert step.prefill_tokens + step.decode_sequences <= 64


# Queue, seats and order


def test_no_more_than_max_num_seqs_run() -> None:
    engine = Engine(SMALL)
    submitted(engine, *(Sequence(5, 3) for _ in range(20)))
    while engine.step() is not None:
        assert engine.snapshot().running <= 4
    assert engine.counters.finished[FinishReason.LENGTH] == 20


def test_sequences_are_scheduled_in_order_of_arrival() -> None:
    engine = Engine(SMALL)
    sequences = submitted(engine, *(Sequence(5, 1 + i % 3) for i in range(12)))
    run_dry(engine)
    starts = [sequence.scheduled_s for sequence in sequences]
    assert starts == sorted(starts, key=lambda start: start or 0.0)


def test_a_prompt_that_does_not_fit_the_free_blocks_waits_whole() -> None:
    engine = Engine(dataclasses.replace(SMALL, num_blocks=16))
    holder, waiter = submitted(engine, Sequence(200, 4), Sequence(100, 2))
    for _ in range(4):
        engine.step()
    assert engine.snapshot().running == 1
    run_dry(engine)
    assert holder.preemptions == waiter.preemptions == 0


def test_a_sequence_that_can_never_fit_is_refused() -> None:
    engine = Engine(SMALL)
    with pytest.raises(ValueError, match="takes 1 to 256 together"):
        engine.submit(Sequence(250, 7))
    with pytest.raises(ValueError, match="0 prompt"):
        engine.submit(Sequence(0, 7))
    assert engine.unfinished == 0


# KV blocks and preemption


def thrashing() -> tuple[Engine, list[Sequence]]:
    """Four sequences that all start, and cannot all grow to their end."""
    engine = Engine(dataclasses.replace(SMALL, num_blocks=20))
    return engine, submitted(engine, *(Sequence(60, 60) for _ in range(4)))


def test_preemption_happens_when_blocks_run_out_and_everybody_still_finishes() -> None:
    engine, sequences = thrashing()
    steps = run_dry(engine)
    assert engine.counters.preemptions > 0
    assert engine.counters.preemptions == sum(step.preempted for step in steps)
    assert all(sequence.generated == 60 for sequence in sequences)
    assert engine.snapshot().blocks_used == 0


def test_the_newest_is_preempted_and_the_oldest_never() -> None:
    engine, sequences = thrashing()
    run_dry(engine)
    preemptions = [sequence.preemptions for sequence in sequences]
    assert preemptions[0] == 0
    assert preemptions == sorted(preemptions)
    assert preemptions[-1] > 0


def test_a_preempted_sequence_goes_before_those_that_never_ran() -> None:
    engine, sequences = thrashing()
    (newcomer,) = submitted(engine, Sequence(16, 2))
    while newcomer.scheduled_s is None:
        engine.step()
    assert engine.counters.preemptions > 0
    assert all(sequence.blocks or sequence.finish_reason for sequence in sequences)


def test_preemption_costs_the_prefill_again() -> None:
    engine, sequences = thrashing()
    steps = run_dry(engine)
    assert sum(step.prefill_tokens for step in steps) > sum(s.prompt_tokens for s in sequences)
    assert engine.counters.prompt_tokens == 240
    assert engine.counters.generation_tokens == 240


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    engine, _ = thrashing()
    for step in run_dry(engine):
        if step.preempted:
            assert step.prefill_tokens == 0


def test_blocks_are_conserved() -> None:
    engine, sequences = thrashing()
    while engine.step() is not None:
        assert engine.snapshot().blocks_used == held(sequences)
        assert engine.snapshot().kv_cache_usage == held(sequences) / 20


# Aborts


def test_an_abort_frees_its_seat_and_blocks_at_once() -> None:
    engine = Engine(SMALL)
    sequences = submitted(engine, *(Sequence(60, 60) for _ in range(5)))
    for _ in range(6):
        engine.step()
    engine.abort(sequences[0])
    assert sequences[0].blocks == 0
    assert engine.snapshot().blocks_used == held(sequences)
    engine.step()
    assert engine.snapshot().running == 4
    assert engine.snapshot().waiting == 0


def test_an_abort_takes_a_waiting_sequence_out_of_the_queue() -> None:
    engine = Engine(SMALL)
    sequences = submitted(engine, *(Sequence(5, 5) for _ in range(6)))
    engine.step()
    engine.abort(sequences[5])
    assert engine.snapshot().waiting == 1
    run_dry(engine)
    assert sequences[5].generated == 0
    assert sequences[4].generated == 5


def test_a_sequence_aborted_during_a_step_gets_no_token_from_it() -> None:
    engine = Engine(SMALL)
    stays, leaves = submitted(engine, Sequence(5, 5), Sequence(5, 5))
    duration_s = engine.begin_step(0.0)
    assert duration_s is not None
    engine.abort(leaves, now_s=duration_s / 2)
    step = engine.end_step(duration_s)
    assert step.advanced == [stays]
    assert (leaves.generated, leaves.finish_reason) == (0, FinishReason.ABORT)
    assert engine.snapshot().blocks_used == held([stays])


def test_aborting_twice_or_late_changes_nothing() -> None:
    engine = Engine(SMALL)
    gone, done = submitted(engine, Sequence(5, 5), Sequence(5, 1))
    engine.step()
    engine.abort(gone)
    engine.abort(gone)
    engine.abort(done)
    assert done.finish_reason is FinishReason.LENGTH
    assert engine.snapshot().aborted == 1
    assert not engine.has_work


# Overload


def mean_ttft_s(engine: Engine, requests_per_s: float, seconds: float) -> tuple[float, float]:
    """Offers a steady load; gives mean TTFT in seconds, and tokens a second."""
    arrivals = [i / requests_per_s for i in range(int(requests_per_s * seconds))]
    waiting = [(at, Sequence(32, 16)) for at in arrivals]
    while waiting or engine.has_work:
        while waiting and waiting[0][0] <= engine.now_s:
            engine.submit(waiting[0][1], waiting.pop(0)[0])
        if engine.step() is None:
            engine.now_s = waiting[0][0]
    ttft = engine.counters.time_to_first_token
    return ttft.sum / ttft.count, engine.counters.generation_tokens / engine.now_s


def test_overload_saturates_throughput_and_grows_the_time_to_first_token() -> None:
    calm, busy, flooded = (mean_ttft_s(Engine(SMALL), rate, 10.0) for rate in (5, 40, 160))
    assert flooded[1] == pytest.approx(busy[1], rel=0.15)
    assert calm[1] < busy[1] / 3
    assert calm[0] < 0.1
    assert flooded[0] > 4 * busy[0] > 16 * calm[0]


# Faults


def test_a_stalled_engine_does_nothing_until_it_is_resumed() -> None:
    engine = Engine(SMALL)
    (sequence,) = submitted(engine, Sequence(5, 5))
    engine.inject(Stall())
    assert engine.step() is None
    assert engine.snapshot().stalled
    assert engine.has_work
    engine.resume()
    run_dry(engine)
    assert sequence.generated == 5


def test_a_dead_engine_ends_everything_and_takes_nothing() -> None:
    engine = Engine(SMALL)
    sequences = submitted(engine, *(Sequence(5, 5) for _ in range(6)))
    engine.step()
    engine.inject(Die())
    assert all(sequence.finish_reason is FinishReason.ERROR for sequence in sequences)
    assert engine.snapshot() == dataclasses.replace(
        engine.snapshot(), running=0, waiting=0, blocks_used=0, dead=True
    )
    with pytest.raises(EngineDeadError):
        engine.submit(Sequence(5, 5))
    with pytest.raises(EngineDeadError):
        engine.begin_step(engine.now_s)


def test_it_dies_of_too_many_prefill_tokens_in_one_step_and_not_of_fewer() -> None:
    engine = Engine(SMALL)
    engine.inject(OutOfMemory(above_prefill_tokens=40))
    submitted(engine, Sequence(40, 3))
    run_dry(engine)
    submitted(engine, Sequence(41, 3))
    with pytest.raises(EngineOutOfMemoryError) as caught:
        engine.step()
    assert caught.value.prefill_tokens == 41
    assert engine.dead


def test_a_slow_engine_takes_a_multiple_of_its_time() -> None:
    def makespan_s(factor: float) -> float:
        engine = Engine(SMALL)
        engine.inject(Slow(factor))
        submitted(engine, Sequence(30, 10))
        run_dry(engine)
        return engine.now_s

    assert makespan_s(3.0) == pytest.approx(3 * makespan_s(1.0))


def test_a_recovered_engine_is_as_fast_and_as_roomy_as_before() -> None:
    engine = Engine(SMALL)
    for fault in (Slow(100.0), OutOfMemory(above_prefill_tokens=1), Stall()):
        engine.inject(fault)
    engine.recover()
    submitted(engine, Sequence(30, 1))
    run_dry(engine)
    assert engine.now_s == SMALL.cost.duration_s(30, 0)


def test_a_fault_of_streams_leaves_the_engine_alone() -> None:
    engine = Engine(SMALL)
    before = engine.snapshot()
    engine.inject(ResetStreams(3))
    assert engine.snapshot() == before


def test_memory_rises_with_the_largest_prefill_and_stays_there() -> None:
    engine = Engine(dataclasses.replace(SMALL, max_num_batched_tokens=256))
    readings = []
    for prompt_tokens in (10, 200, 10):
        submitted(engine, Sequence(prompt_tokens, 1))
        run_dry(engine)
        readings.append(engine.snapshot().memory_used_bytes)
    spike = 190 * engine.options.memory.activation_token_bytes
    assert readings == [readings[0], readings[0] + spike, readings[0] + spike]


# Any interleaving

ARRIVALS = st.lists(
    st.tuples(
        st.integers(1, 100),  # prompt tokens
        st.integers(0, 100),  # output tokens
        st.integers(0, 3),  # steps before the next one arrives
        st.one_of(st.none(), st.integers(0, 30)),  # aborted so many steps later
    ),
    max_size=40,
)


@settings(deadline=None)
@given(arrivals=ARRIVALS, num_blocks=st.integers(16, 40), chunked=st.booleans())
def test_whatever_arrives_and_leaves_blocks_and_seats_are_kept_and_everybody_ends(
    arrivals: list[tuple[int, int, int, int | None]], num_blocks: int, chunked: bool
) -> None:
    engine = Engine(
        dataclasses.replace(
            SMALL,
            num_blocks=num_blocks,
            chunked_prefill=chunked,
            max_num_batched_tokens=64 if chunked else 256,
        )
    )
    sequences: list[Sequence] = []
    leaving: list[tuple[int, Sequence]] = []
    step_number = 0

    def step_and_check() -> EngineSnapshot:
        nonlocal step_number
        step_number += 1
        for at, sequence in leaving:
            if at == step_number:
                engine.abort(sequence)
        engine.step()
        now = engine.snapshot()
        assert now.blocks_used == held(sequences) <= num_blocks
        assert now.running <= 4
        return now

    for prompt_tokens, max_tokens, pause, leaves_after in arrivals:
        sequence = Sequence(prompt_tokens, max_tokens)
        sequences += submitted(engine, sequence)
        if leaves_after is not None:
            leaving.append((step_number + 1 + leaves_after, sequence))
        for _ in range(pause):
            step_and_check()
    while engine.has_work:
        assert step_number < 20_000
        step_and_check()
    assert engine.snapshot().blocks_used == 0
    for sequence in sequences:
        if sequence.finish_reason is not FinishReason.ABORT:
            assert sequence.generated == sequence.max_tokens
    assert sum(engine.counters.finished.values()) == len(sequences)


def test_the_same_load_gives_the_same_run() -> None:
    def run() -> tuple[float, EngineSnapshot]:
        engine, dice = Engine(SMALL), random.Random(7)
        for _ in range(100):
            engine.submit(Sequence(dice.randint(1, 100), dice.randint(1, 100)))
        run_dry(engine)
        return engine.now_s, engine.snapshot()

    assert run() == run()
