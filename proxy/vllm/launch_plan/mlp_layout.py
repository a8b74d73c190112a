"""The weights of each layer's MLP, dense or of experts, from a `config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.attention_layout import HIDDEN, LAYERS
from proxy.vllm.launch_plan.shape import Kind, Split, Weight

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.config_fields import ConfigFields
    from proxy.vllm.launch_plan.families import Family

_SIZE = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
)
_LLAMA4 = ("llama4", "llama4_text")
_FOUR_TIMES = 4  # of the hidden size: what GPT-2, Falcon, Bloom and their kin mean by nothing


@dataclass(frozen=True, slots=True)
class MlpLayout:
    """`layers`: the weights of each layer's MLP. `size`: elements between its halves for one
    token, in the widest layer. `expert_share`: the part of the experts that a token uses."""

    layers: tuple[tuple[Weight, ...], ...]
    size: int
    expert_share: float
    expert_count: int


def read_mlp(config: ConfigFields, family: Family) -> MlpLayout:
    hidden, count = config.whole(*HIDDEN), config.whole(*LAYERS)
    matrices = 3 if family.gated else 2
    experts = config.whole_or_none(*_EXPERTS) or 0
    dense_size = _dense_size(config, hidden)
    dense = (Weight(matrices * hidden * dense_size),)
    if experts <= 1:
        return MlpLayout((dense,) * count, matrices * dense_size, 1.0, 0)
    chosen = min(experts, config.whole(*_CHOSEN))
    size, shared = _expert_size(config), _shared_size(config)
    sparse = (
        Weight(matrices * hidden * size * experts, kind=Kind.EXPERT),
        Weight(hidden * experts, kind=Kind.PLAIN, split=Split.REPLICATED),
        *((Weight(matrices * hidden * shared),) if shared else ()),
    )
    layers = tuple(sparse if _is_sparse(config, at) else dense for at in range(count))
    widest = max(
        matrices * (chosen * size + shared), matrices * dense_size if dense in layers else 0
    )
    return MlpLayout(layers, widest, chosen / experts, experts)


def _dense_size(config: ConfigFields, hidden: int) -> int:
    if config.text("model_type") in _LLAMA4 and config.has("intermediate_size_mlp"):
        return config.whole("intermediate_size_mlp")
    size = config.whole_or_none(*_SIZE)
    return size or hidden * (config.whole_or_none("expansion_ratio") or _FOUR_TIMES)


def _expert_size(config: ConfigFields) -> int:
    return config.whole("moe_intermediate_size", "intermediate_size")


def _shared_size(config: ConfigFields) -> int:
    if config.text("model_type") in _LLAMA4:
        return config.whole("intermediate_size")
    told = config.whole_or_none("shared_expert_intermediate_size", "shared_intermediate_size")
    number = config.whole_or_none("n_shared_experts", "moe_num_shared_experts") or 0
    return told or number * _expert_size(config)


def _is_sparse(config: ConfigFields, at: int) -> bool:
    listed = config.items("moe_layers")
    if listed is not None:
        return at in listed
    if at in (config.items("mlp_only_layers") or ()):
        return False
    if at < (config.whole_or_none("first_k_dense_replace", "moe_layer_start_index") or 0):
        return False
    if config.text("model_type") in _LLAMA4:
        return (at + 1) % config.whole("interleave_moe_layer_step") == 0
    if config.has("decoder_sparse_step"):
        return (at + 1) % config.whole("decoder_sparse_step") == 0
    frequency = config.raw("moe_layer_freq")
    if isinstance(frequency, int) and frequency > 1:
        return at % frequency == 0
    return True
