"""What of a card is left for the KV cache.

    usable     memory x --gpu-memory-utilization
    KV cache   usable - weights - activations - CUDA graphs - other
    missing    weights + overheads + one request of full length - usable, where that is above 0

vLLM 0.32 takes its estimate of the CUDA graphs off as well; versions before 0.20 did not. The CUDA
context comes on top of `usable`.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.vllm.launch_plan.overheads import CONTEXT_BYTES, Overheads

DEFAULT_UTILIZATION = 0.92
# What a card keeps outside of vLLM's share: the context, and room for what profiling did not see.
_KEPT_BYTES = int(1.5 * (1 << 30))
_KEPT_FOR_IMAGES = 0.02


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes on one card; `weights` of each stage of a pipeline."""

    memory: int
    utilization: float
    weights: tuple[float, ...]
    overheads: Overheads
    fixed_kv: int | None = None  # --kv-cache-memory: the rest does not matter then

    @property
    def usable(self) -> float:
        return self.memory * self.utilization

    @property
    def kv_memory(self) -> tuple[float, ...]:
        """May be below 0."""
        if self.fixed_kv is not None:
            return (float(self.fixed_kv),) * len(self.weights)
        return tuple(self.usable - weights - self.overheads.total for weights in self.weights)

    @property
    def kv_range(self) -> tuple[float, float]:
        """On the fullest card, with the overheads at their highest and at their lowest."""
        if self.fixed_kv is not None:
            return float(self.fixed_kv), float(self.fixed_kv)
        heaviest = max(self.weights)
        return (
            self.usable - heaviest - self.overheads.high,
            self.usable - heaviest - self.overheads.low,
        )

    def missing(self, one_request: tuple[int, ...]) -> float:
        """Bytes on the card that lacks most; 0 or less when it fits."""
        pairs = zip(one_request, self.kv_memory, strict=True)
        return max(needed - there for needed, there in pairs)


def sound_utilization(memory: int, multimodal: bool) -> float:
    """vLLM's default, or less on a card of which it would leave too little."""
    most = (memory - _KEPT_BYTES) / memory
    kept = DEFAULT_UTILIZATION - (_KEPT_FOR_IMAGES if multimodal else 0.0)
    return max(0.1, int(min(kept, most) * 100) / 100)


def largest_utilization(memory: int) -> float:
    """With which the CUDA context still has its room."""
    return max(0.1, int((memory - CONTEXT_BYTES) / memory * 100) / 100)
