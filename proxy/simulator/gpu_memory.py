"""Where the GPU's memory goes, in bytes.

total * utilization = context + weights + KV cache + activations of the largest step

The KV cache is taken up front, so decode never grows memory. What grows are activations, with the
tokens of one step; PyTorch's allocator keeps what it once took, so nvidia-smi shows the largest
step so far.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """The defaults are those of a model with 8 billion parameters in 16 bits on a 24 GiB card.

    `context_bytes` is what PyTorch does not see: the CUDA context, NCCL, captured graphs.
    """

    total_bytes: int = 24 * GIB
    utilization: float = 0.92
    weight_bytes: int = 15 * GIB
    context_bytes: int = 512 * MIB
    kv_token_bytes: int = 128 * KIB
    activation_token_bytes: int = 640 * KIB

    def __post_init__(self) -> None:
        if not 0 < self.utilization <= 1:
            raise ValueError(f"utilization must be above 0 and at most 1, got {self.utilization}")

    def kv_cache_bytes(self, max_num_batched_tokens: int) -> int:
        """What is left for the KV cache once the largest step has its activations; may be
        negative."""
        granted = int(self.total_bytes * self.utilization)
        return (
            granted
            - self.weight_bytes
            - self.context_bytes
            - self.activations(max_num_batched_tokens)
        )

    def activations(self, batched_tokens: int) -> int:
        return batched_tokens * self.activation_token_bytes

    def used_bytes(self, kv_cache_bytes: int, largest_step_tokens: int) -> int:
        """What nvidia-smi shows after a step of so many tokens; never more than there is."""
        used = self.context_bytes + self.weight_bytes + kv_cache_bytes
        return min(used + self.activations(largest_step_tokens), self.total_bytes)
