"""A model as memory sees it: frozen records, sizes in elements.

A layer's weights are few kinds of matrices, told apart by what happens to them: whether each card
of a tensor-parallel group holds a part of them or all, and whether a quantization touches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Split(StrEnum):
    """What one card of a tensor-parallel group holds."""

    SHARDED = "sharded"
    KV_HEADS = "kv_heads"  # as many parts as there are KV heads; cards beyond hold copies
    REPLICATED = "replicated"


class Kind(StrEnum):
    """Which format the weights may be stored in."""

    LINEAR = "linear"
    EXPERT = "expert"
    PLAIN = "plain"  # embeddings, norms, routers: never quantized


@dataclass(frozen=True, slots=True)
class Weight:
    parameters: int
    kind: Kind = Kind.LINEAR
    split: Split = Split.SHARDED


@dataclass(frozen=True, slots=True)
class Attention:
    """What a layer keeps of each token. `latent`: MLA's one compressed vector, which every card
    holds whole. `window`: it keeps no more than so many of the last tokens."""

    kv_heads: int
    key_size: int
    value_size: int
    latent: bool = False
    window: int | None = None

    def elements_per_token(self, tensor_parallel: int) -> int:
        """On one card, in one layer."""
        if self.latent:
            return self.key_size
        return self.heads_per_card(tensor_parallel) * (self.key_size + self.value_size)

    def heads_per_card(self, tensor_parallel: int) -> int:
        """vLLM gives each card at least one: `max(1, kv_heads // tensor_parallel)`."""
        return max(1, self.kv_heads // tensor_parallel)


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    weights: tuple[Weight, ...]

    @property
    def parameters(self) -> int:
        return sum(weight.parameters for weight in self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """`first` stands on the first card of a pipeline (token and position embeddings, a vision
    tower), `last` on the last (norm, head). `tied`: the head is the token embedding, `embedding`
    parameters, which a pipeline holds twice. `absorbed` is what vLLM adds to each layer when it
    loads it. `expert_share` is the part of its experts' weights that one token uses. `query_size`:
    elements of all queries of one token, `mlp_size`: of the two halves of its MLP. `notes` are
    what was assumed while the file was read.
    """

    name: str
    layers: tuple[Layer, ...]
    hidden: int
    heads: int
    query_size: int
    mlp_size: int
    vocabulary: int
    embedding: int
    first: tuple[Weight, ...]
    last: tuple[Weight, ...]
    tied: bool = False
    max_model_len: int | None = None
    dtype: str = "bfloat16"
    expert_share: float = 1.0
    expert_count: int = 0
    multimodal: bool = False
    absorbed: Weight | None = None
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        """As a publisher counts them: a tied head once."""
        ends = sum(weight.parameters for weight in (*self.first, *self.last))
        return ends + sum(layer.parameters for layer in self.layers)

    @property
    def active_parameters(self) -> int:
        """That compute one token: of the experts only those that it is sent to, and no embedding
        but the head."""
        layers = sum(
            weight.parameters * (self.expert_share if weight.kind is Kind.EXPERT else 1.0)
            for layer in self.layers
            for weight in layer.weights
        )
        return int(layers) + self.vocabulary * self.hidden

    @property
    def latent(self) -> bool:
        return any(layer.attention.latent for layer in self.layers)
