"""A continuous-batching engine as vLLM V1 schedules it, step by step, without any clock.

A step has a budget of `max_num_batched_tokens`. First each running sequence gets its share: one
token in decode, the next chunk of its prompt in prefill. When KV blocks run out, the newest running
sequence is preempted: its blocks are freed, and it goes to the front of the queue to be computed
again from the start. If nobody was preempted, waiting sequences are admitted in order, up to
`max_num_seqs`, each only if all of it fits into the free blocks. Whoever has all of its tokens
computed when the step ends gets one more.

The method is read off vLLM 0.32 (vllm/v1/core/sched/scheduler.py); there is no prefix cache.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.simulator.counters import EngineCounters
from proxy.simulator.faults import Die, Fault, OutOfMemory, Slow, Stall
from proxy.simulator.kv_blocks import BlockPool
from proxy.simulator.sequence import FinishReason, Sequence

if TYPE_CHECKING:
    from proxy.simulator.engine_options import EngineOptions


class EngineDeadError(Exception):
    """The engine is dead, and stays so."""


class EngineOutOfMemoryError(EngineDeadError):
    """The step needed more activation memory than there was; the engine died of it."""

    def __init__(self, prefill_tokens: int) -> None:
        super().__init__(f"CUDA out of memory in a step with {prefill_tokens} prefill tokens")
        self.prefill_tokens = prefill_tokens


@dataclass(slots=True)
class Step:
    """What one step does. `advanced`: sequences that got a token (or, pooling, their result)."""

    tokens_left: int
    planned: list[Sequence] = field(default_factory=list)
    prefill_tokens: int = 0
    decode_sequences: int = 0
    preempted: int = 0
    duration_s: float = 0.0
    advanced: list[Sequence] = field(default_factory=list)
    finished: list[Sequence] = field(default_factory=list)

    def plan(self, sequence: Sequence, tokens: int) -> None:
        if sequence.in_decode:
            self.decode_sequences += 1
        else:
            self.prefill_tokens += tokens
        sequence.planned = tokens
        self.tokens_left -= tokens
        self.planned.append(sequence)


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The engine at one moment. `kv_cache_usage` is 0 to 1; `memory_used_bytes` is what nvidia-smi
    would show; `aborted` counts sequences since the start."""

    running: int
    waiting: int
    kv_cache_usage: float
    blocks_used: int
    steps: int
    stalled: bool
    dead: bool
    memory_used_bytes: int
    aborted: int


class Engine:
    """Told the time at each step, or, with `step()`, on a clock of its own that starts at 0 s.

    One step at a time: begin_step(), then end_step(). Sequences may be submitted and aborted
    between the two.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.counters = EngineCounters(options.max_model_len)
        self.now_s = 0.0
        self.stalled = False
        self.dead = False
        self._blocks = BlockPool(options.num_blocks, options.block_size)
        self._running: list[Sequence] = []
        self._waiting: OrderedDict[Sequence, None] = OrderedDict()
        self._step: Step | None = None
        self._steps = 0
        self._slow_factor = 1.0
        self._oom_above_tokens: int | None = None
        self._largest_step_tokens = 0

    @property
    def has_work(self) -> bool:
        return bool(self._running or self._waiting)

    @property
    def unfinished(self) -> int:
        """Sequences running or waiting."""
        return len(self._running) + len(self._waiting)

    def submit(self, sequence: Sequence, now_s: float | None = None) -> None:
        """Puts it at the end of the queue. Raises ValueError if it can never fit, and
        EngineDeadError."""
        self._die_again_if_dead()
        longest = sequence.prompt_tokens + sequence.max_tokens
        if not 0 < sequence.prompt_tokens <= longest <= self.options.max_model_len:
            raise ValueError(
                f"{sequence.prompt_tokens} prompt and {sequence.max_tokens} output tokens, "
                f"but the model takes 1 to {self.options.max_model_len} together"
            )
        sequence.arrived_s = self.now_s if now_s is None else now_s
        self._waiting[sequence] = None

    def abort(self, sequence: Sequence, now_s: float | None = None) -> None:
        """Ends it now and frees its blocks; nothing happens if it has ended already."""
        if sequence.finish_reason is not None:
            return
        if sequence in self._waiting:
            del self._waiting[sequence]
        elif sequence in self._running:
            self._running.remove(sequence)
        self._finish(sequence, FinishReason.ABORT, self.now_s if now_s is None else now_s)

    def begin_step(self, now_s: float) -> float | None:
        """Decides what the next step computes. Returns how long it takes, in seconds, or None when
        there is nothing to do or the engine is stalled. Raises EngineDeadError."""
        self._die_again_if_dead()
        if self.stalled or not self.has_work:
            return None
        self.now_s = now_s
        step = self._step = Step(self.options.max_num_batched_tokens)
        self._plan_running(step)
        if not step.preempted:
            self._admit_waiting(step)
        self._check_memory(step)
        cost = self.options.cost
        duration_s = cost.duration_s(step.prefill_tokens, step.decode_sequences)
        step.duration_s = duration_s * self._slow_factor
        return step.duration_s

    def end_step(self, now_s: float) -> Step:
        """The step is over: tokens come out, finished sequences leave."""
        step, self._step = self._step, None
        if step is None:
            raise RuntimeError("end_step() without begin_step()")
        self.now_s = now_s
        self._steps += 1
        for sequence in step.planned:
            if sequence.finish_reason is not None:
                continue  # aborted meanwhile
            sequence.computed += sequence.planned
            if sequence.computed == sequence.tokens:
                self._emit_token(sequence, step)
        if step.finished:
            self._running = [s for s in self._running if s.finish_reason is None]
        if step.advanced:  # vLLM's frontend, which counts, hears of no other step
            tokens = step.prefill_tokens + step.decode_sequences
            self.counters.iteration_tokens.observe(tokens)
        return step

    def step(self) -> Step | None:
        """One whole step on the engine's own clock; None when there is nothing to do."""
        duration_s = self.begin_step(self.now_s)
        return None if duration_s is None else self.end_step(self.now_s + duration_s)

    def inject(self, fault: Fault) -> None:
        """Lets it set in now. `ResetStreams` concerns streams: it is not for the engine."""
        match fault:
            case Stall():
                self.stalled = True
            case Die():
                self.die()
            case OutOfMemory(tokens):
                self._oom_above_tokens = tokens
            case Slow(factor):
                self._slow_factor = factor

    def resume(self) -> None:
        """Ends a stall."""
        self.stalled = False

    def recover(self) -> None:
        """Ends every fault but death."""
        self.stalled = False
        self._slow_factor = 1.0
        self._oom_above_tokens = None

    def die(self) -> None:
        """Whatever runs or waits ends with an error."""
        self.dead = True
        for sequence in (*self._running, *self._waiting):
            self._blocks.give_back(sequence)
            sequence.finish_reason = FinishReason.ERROR
        self._running.clear()
        self._waiting.clear()
        self._step = None

    def snapshot(self) -> EngineSnapshot:
        options = self.options
        return EngineSnapshot(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_cache_usage=self._blocks.usage,
            blocks_used=self._blocks.used,
            steps=self._steps,
            stalled=self.stalled,
            dead=self.dead,
            memory_used_bytes=options.memory.used_bytes(
                options.kv_cache_bytes, self._largest_step_tokens
            ),
            aborted=self.counters.finished[FinishReason.ABORT],
        )

    def _plan_running(self, step: Step) -> None:
        running, index = self._running, 0
        while index < len(running) and step.tokens_left > 0:
            sequence = running[index]
            tokens = min(sequence.missing, step.tokens_left)
            if not self._make_room(sequence, tokens, step):
                return
            step.plan(sequence, tokens)
            index += 1

    def _make_room(self, sequence: Sequence, tokens: int, step: Step) -> bool:
        """Preempts the newest until the blocks are there; False when that was the sequence
        itself."""
        while not self._blocks.grow(sequence, tokens):
            victim = self._running.pop()
            self._preempt(victim)
            step.preempted += 1
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._blocks.give_back(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        self.counters.preemptions += 1
        self._waiting[sequence] = None
        self._waiting.move_to_end(sequence, last=False)

    def _admit_waiting(self, step: Step) -> None:
        waiting, running = self._waiting, self._running
        while waiting and step.tokens_left > 0 and len(running) < self.options.max_num_seqs:
            sequence = next(iter(waiting))
            tokens = sequence.missing
            if tokens > step.tokens_left and not self.options.chunked_prefill:
                return
            if not self._blocks.fits(tokens):
                return
            tokens = min(tokens, step.tokens_left)
            self._blocks.grow(sequence, tokens)
            del waiting[sequence]
            running.append(sequence)
            if sequence.scheduled_s is None:
                sequence.scheduled_s = self.now_s
            step.plan(sequence, tokens)

    def _check_memory(self, step: Step) -> None:
        limit = self._oom_above_tokens
        if limit is not None and step.prefill_tokens > limit:
            self.die()
            raise EngineOutOfMemoryError(step.prefill_tokens)
        tokens = step.prefill_tokens + step.decode_sequences
        self._largest_step_tokens = max(self._largest_step_tokens, tokens)

    def _emit_token(self, sequence: Sequence, step: Step) -> None:
        now_s = self.now_s
        if sequence.first_token_s is None:
            sequence.first_token_s = now_s
            self.counters.prompt_computed(sequence, now_s)
        if sequence.max_tokens:
            sequence.generated += 1
            self.counters.token_generated(sequence, now_s)
        sequence.last_token_s = now_s
        step.advanced.append(sequence)
        reason = sequence.reason_to_finish()
        if reason is not None:
            step.finished.append(sequence)
            self._finish(sequence, reason, now_s)

    def _finish(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        self._blocks.give_back(sequence)
        sequence.finish_reason = reason
        sequence.finished_s = now_s
        self.counters.sequence_finished(sequence, reason, now_s)

    def _die_again_if_dead(self) -> None:
        if self.dead:
            raise EngineDeadError("the engine is dead")
