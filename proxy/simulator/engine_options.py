"""What an engine is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.simulator.gpu_memory import GIB, GpuMemory
from proxy.simulator.step_cost import StepCost


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Raises ValueError, in vLLM's terms, for what vLLM refuses to start with."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 8192
    num_blocks: int = 2560
    block_size: int = 16
    chunked_prefill: bool = True
    cost: StepCost = field(default_factory=StepCost)
    memory: GpuMemory = field(default_factory=GpuMemory)

    def __post_init__(self) -> None:
        if self.max_num_seqs < 1 or self.max_model_len < 1 or self.block_size < 1:
            raise ValueError("max_num_seqs, max_model_len and block_size must be at least 1")
        if self.num_blocks < 1:
            raise ValueError("No available memory for the cache blocks")
        self._check_model_len()
        self._check_batched_tokens()

    def _check_model_len(self) -> None:
        needed_bytes = self.max_model_len * self.memory.kv_token_bytes
        if self.kv_cache_bytes < needed_bytes:
            raise ValueError(
                f"To serve at least one request with the model's max seq len "
                f"({self.max_model_len}), {needed_bytes / GIB:.2f} GiB KV cache is needed, which "
                f"is larger than the available KV cache memory "
                f"({self.kv_cache_bytes / GIB:.2f} GiB)"
            )

    def _check_batched_tokens(self) -> None:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must not be below "
                f"max_num_seqs ({self.max_num_seqs})"
            )
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is smaller than "
                f"max_model_len ({self.max_model_len}), and prefill is not chunked"
            )

    @property
    def kv_cache_tokens(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def kv_cache_bytes(self) -> int:
        return self.kv_cache_tokens * self.memory.kv_token_bytes
