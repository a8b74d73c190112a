"""How many tokens the KV cache holds, counted as vLLM counts them.

    bytes per token and card   sum over its layers of kv heads on the card x (key + value) x bytes
                               of an element; MLA: (kv_lora_rank + qk_rope_head_dim) x bytes
    blocks                     min over cards of KV memory // bytes of a block, b tokens in each
                               layer of the largest group
    tokens                     blocks / blocks of one request of full length x full length

Layers that keep the same are one group; where there are several kinds, each is cut into groups of
as many layers as the rarest kind has, and a request takes blocks in each group. Of a layer with a
window W a request takes at most (W - 1 + tokens in flight) / b + 1 blocks.
Source: vLLM 0.32, v1/core/kv_cache_utils.py and v1/kv_cache_interface.py; the tests hold figures
that these gave for the same models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.placement import stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.launch_plan.placement import Placement
    from proxy.vllm.launch_plan.shape import Layer, ModelShape

BLOCK_TOKENS = 16
# vLLM's kernels for MLA on data-center cards take blocks of 64.
LATENT_BLOCK_TOKENS = 64
_FEW_PADDING_LAYERS = 1.5


@dataclass(frozen=True, slots=True)
class KvLayout:
    """What the cache costs, before it is known how much memory there is for it.

    `token_bytes`: of each stage, on one card, while no window is full. `block_bytes`: likewise, of
    one block. `windows`: of each group, None for one that keeps everything. `in_flight_tokens`:
    what may be computed and not yet let go of.
    """

    block_tokens: int
    token_bytes: tuple[int, ...]
    block_bytes: tuple[int, ...]
    windows: tuple[int | None, ...]
    in_flight_tokens: int

    def blocks_reserved(self, tokens: int) -> int:
        """That a request of so many tokens may take at most, as vLLM counts at its start."""
        return sum(self._reserved(tokens, window) for window in self.windows)

    def blocks_held(self, tokens: float) -> float:
        """That a running sequence of so many tokens holds, half a block of rounding included."""
        return sum(self._held(tokens, window) for window in self.windows)

    def blocks_in(self, memory: Sequence[float]) -> int:
        """`memory`: bytes for the cache on a card of each stage. The smallest card decides."""
        pairs = zip(memory, self.block_bytes, strict=True)
        return max(0, min(int(free // size) for free, size in pairs if size))

    def full_length_bytes(self, max_model_len: int) -> tuple[int, ...]:
        """On a card of each stage, for one request of full length, and the null block."""
        blocks = self.blocks_reserved(max_model_len) + 1
        return tuple(blocks * size for size in self.block_bytes)

    def _reserved(self, tokens: int, window: int | None) -> int:
        if window is None:
            return _ceil(tokens, self.block_tokens)
        most = min(window - 1 + self.in_flight_tokens, tokens)
        return _ceil(most, self.block_tokens) + 1

    def _held(self, tokens: float, window: int | None) -> float:
        kept = tokens if window is None else min(tokens, window)
        return kept / self.block_tokens + 0.5


@dataclass(frozen=True, slots=True)
class KvCache:
    """The cache of one engine: `blocks` on every card."""

    layout: KvLayout
    blocks: int
    max_model_len: int

    @property
    def concurrency(self) -> float:
        """Requests of full length at once: vLLM's "Maximum concurrency"."""
        return self.blocks / self.layout.blocks_reserved(self.max_model_len)

    @property
    def tokens(self) -> int:
        """vLLM's "KV cache size"."""
        return int(self.concurrency * self.max_model_len)

    def sequences_of(self, tokens: int) -> int:
        """Of so many tokens each, at once, none of them ever preempted."""
        usable = self.blocks - 1  # vLLM keeps one block empty
        return max(0, usable // self.layout.blocks_reserved(max(1, tokens)))


def kv_layout(
    shape: ModelShape,
    placement: Placement,
    element_bytes: int,
    *,
    max_num_batched_tokens: int,
    block_tokens: int | None = None,
) -> KvLayout:
    block = block_tokens or (LATENT_BLOCK_TOKENS if shape.latent else BLOCK_TOKENS)
    groups, windows = _groups(shape.layers)
    split = stages(len(shape.layers), placement.pipeline_parallel)
    element = shape.layers[0].attention.elements_per_token(placement.tensor_parallel)
    widest = [max(len(set(own) & group) for group in groups) for own in split]
    return KvLayout(
        block_tokens=block,
        token_bytes=tuple(len(own) * element * element_bytes for own in split),
        block_bytes=tuple(layers * block * element * element_bytes for layers in widest),
        windows=windows,
        in_flight_tokens=_concurrent_batches(placement) * max_num_batched_tokens,
    )


def _concurrent_batches(placement: Placement) -> int:
    """A pipeline has a batch in each stage; without one, scheduling runs one step ahead."""
    return max(2, placement.pipeline_parallel)


def _groups(layers: Sequence[Layer]) -> tuple[list[set[int]], tuple[int | None, ...]]:
    kinds: dict[int | None, list[int]] = {}
    for at, layer in enumerate(layers):
        kinds.setdefault(layer.attention.window, []).append(at)
    rarest, commonest = min(map(len, kinds.values())), max(map(len, kinds.values()))
    size = commonest if commonest < rarest * _FEW_PADDING_LAYERS else rarest
    groups: list[set[int]] = []
    windows: list[int | None] = []
    for window, members in kinds.items():
        number = _ceil(len(members), size)
        groups += [set(members[start::number]) for start in range(number)]
        windows += [window] * number
    return groups, tuple(windows)


def _ceil(number: float, divisor: int) -> int:
    return int(-(-number // divisor))
