"""What the engine counts: vLLM's counters and histograms, as plain numbers."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from proxy.simulator.sequence import FinishReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.simulator.sequence import Sequence

# Bucket boundaries as vLLM 0.32 has them: dashboards are built on them.
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_N = (1, 2, 5, 10, 20)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)


class Histogram:
    """`counts[i]`: observations up to `buckets[i]`, and above the one before. The last counts those
    above all buckets."""

    __slots__ = ("buckets", "count", "counts", "sum")

    def __init__(self, buckets: Iterable[float]) -> None:
        self.buckets = tuple(buckets)
        self.counts = [0] * (len(self.buckets) + 1)
        self.count = 0
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.buckets, value)] += 1
        self.count += 1
        self.sum += value


class EngineCounters:
    """Since the start. Names follow vLLM's metrics, without `vllm:` and units."""

    def __init__(self, max_model_len: int) -> None:
        lengths = tuple(_one_two_five(max_model_len))
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.preemptions = 0
        self.finished = dict.fromkeys(FinishReason, 0)
        self.iteration_tokens = Histogram(_STEP_TOKENS)
        self.time_to_first_token = Histogram(_TTFT_S)
        self.inter_token_latency = Histogram(_TOKEN_S)
        self.time_per_output_token = Histogram(_TOKEN_S)
        self.e2e_latency = Histogram(_REQUEST_S)
        self.queue_time = Histogram(_REQUEST_S)
        self.inference_time = Histogram(_REQUEST_S)
        self.prefill_time = Histogram(_REQUEST_S)
        self.decode_time = Histogram(_REQUEST_S)
        self.request_prompt_tokens = Histogram(lengths)
        self.request_generation_tokens = Histogram(lengths)
        self.request_max_tokens = Histogram(lengths)
        self.request_n = Histogram(_N)
        self.request_preemptions = Histogram(_PREEMPTIONS)

    def prompt_computed(self, sequence: Sequence, now_s: float) -> None:
        self.prompt_tokens += sequence.prompt_tokens
        self.time_to_first_token.observe(now_s - sequence.arrived_s)

    def token_generated(self, sequence: Sequence, now_s: float) -> None:
        self.generation_tokens += 1
        if sequence.generated > 1:
            self.inter_token_latency.observe(now_s - sequence.last_token_s)

    def sequence_finished(self, sequence: Sequence, reason: FinishReason, now_s: float) -> None:
        self.finished[reason] += 1
        if reason is not FinishReason.ABORT:  # vLLM takes no times of what a client gave up
            self._observe_times(sequence, now_s)
            self._observe_sizes(sequence)

    def _observe_times(self, sequence: Sequence, now_s: float) -> None:
        scheduled_s = now_s if sequence.scheduled_s is None else sequence.scheduled_s
        first_token_s = now_s if sequence.first_token_s is None else sequence.first_token_s
        self.e2e_latency.observe(now_s - sequence.arrived_s)
        self.queue_time.observe(scheduled_s - sequence.arrived_s)
        self.inference_time.observe(now_s - scheduled_s)
        self.prefill_time.observe(first_token_s - scheduled_s)
        self.decode_time.observe(now_s - first_token_s)
        tokens_after_first = max(1, sequence.generated - 1)
        self.time_per_output_token.observe((now_s - first_token_s) / tokens_after_first)

    def _observe_sizes(self, sequence: Sequence) -> None:
        self.request_prompt_tokens.observe(sequence.prompt_tokens)
        self.request_generation_tokens.observe(sequence.generated)
        self.request_max_tokens.observe(sequence.max_tokens)
        self.request_preemptions.observe(sequence.preemptions)


def _one_two_five(up_to: int) -> Iterator[int]:
    power = 1
    while True:
        for value in (power, 2 * power, 5 * power):
            if value > up_to:
                return
            yield value
        power *= 10
