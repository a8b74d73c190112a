"""What each layer keeps of a token, and the weights of its attention, from a `config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.shape import Attention, Kind, Split, Weight

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.config_fields import ConfigFields
    from proxy.vllm.launch_plan.families import Family

HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "num_attention_groups",
)
_HEAD_DIM = ("head_dim", "kv_channels", "hidden_size_per_head", "attention_head_dim")
_OLD_FALCON = ("falcon", "RefinedWeb", "RefinedWebModel")
# Cohere's window lets a token see itself and as many others.
_WINDOW_AND_ITSELF = ("cohere2",)


@dataclass(frozen=True, slots=True)
class AttentionLayout:
    """`layers`: one for each layer. `weights`: the same in every layer."""

    layers: tuple[Attention, ...]
    weights: tuple[Weight, ...]
    heads: int
    query_size: int


def read_attention(config: ConfigFields, family: Family) -> AttentionLayout:
    if config.has("kv_lora_rank"):
        return _latent(config)
    hidden, heads = config.whole(*HIDDEN), config.whole(*HEADS)
    size = config.whole_or_none(*_HEAD_DIM) or max(1, hidden // heads)
    kv_heads = _kv_heads(config, heads)
    value_size = config.whole_or_none("v_head_dim") or size
    layers = tuple(
        Attention(kv_heads, size, value_size, window=window) for window in _windows(config, family)
    )
    weights = (
        Weight(hidden * heads * size),
        Weight(hidden * kv_heads * (size + value_size), split=Split.KV_HEADS),
        Weight(hidden * heads * value_size),
    )
    return AttentionLayout(layers, weights, heads, heads * size)


def _kv_heads(config: ConfigFields, heads: int) -> int:
    """Without a word on it every query head has its own."""
    if config.text("model_type") in _OLD_FALCON:
        new = config.flag("new_decoder_architecture", False)
        if not new and config.flag("multi_query", True):
            return 1
    if config.flag("multi_query", False) and config.text("model_type") == "gpt_bigcode":
        return 1
    nested = config.object("attn_config")
    own = config.whole_or_none(*_KV_HEADS)
    return own or (nested.whole_or_none("kv_n_heads") if nested else None) or heads


def _latent(config: ConfigFields) -> AttentionLayout:
    """MLA: one vector of kv_lora_rank + qk_rope_head_dim for a token, whatever the heads."""
    hidden, heads = config.whole(*HIDDEN), config.whole(*HEADS)
    rank, rope = config.whole("kv_lora_rank"), config.whole("qk_rope_head_dim")
    nope, value = config.whole("qk_nope_head_dim"), config.whole("v_head_dim")
    query_rank = config.whole_or_none("q_lora_rank")
    queries = heads * (nope + rope)
    query_weights = (
        (Weight(hidden * query_rank, split=Split.REPLICATED), Weight(query_rank * queries))
        if query_rank
        else (Weight(hidden * queries),)
    )
    weights = (
        *query_weights,
        Weight(hidden * (rank + rope), split=Split.REPLICATED),
        Weight(rank * heads * (nope + value)),
        Weight(heads * value * hidden),
    )
    attention = Attention(heads, rank + rope, 0, latent=True)
    return AttentionLayout((attention,) * config.whole(*LAYERS), weights, heads, queries)


def absorbed_weight(config: ConfigFields) -> Weight | None:
    """The copy of MLA's up-projection that vLLM keeps in the model's own type, for decoding."""
    if not config.has("kv_lora_rank"):
        return None
    heads = config.whole(*HEADS)
    sizes = config.whole("qk_nope_head_dim") + config.whole("v_head_dim")
    return Weight(config.whole("kv_lora_rank") * heads * sizes, kind=Kind.PLAIN)


def _windows(config: ConfigFields, family: Family) -> tuple[int | None, ...]:
    count = config.whole(*LAYERS)
    window = config.whole_or_none("sliding_window")
    if window is None or family.window_rule == "none":
        return (None,) * count
    if config.text("model_type") in _WINDOW_AND_ITSELF:
        window += 1
    types = config.items("layer_types")
    if types is not None:
        if len(types) != count:
            raise PlanError(
                f"{config.place}: layer_types has {len(types)} entries for {count} layers"
            )
        return tuple(window if kind == "sliding_attention" else None for kind in types)
    return tuple(
        window if _keeps_window(config, family.window_rule, at) else None for at in range(count)
    )


def _keeps_window(config: ConfigFields, rule: str, at: int) -> bool:
    if rule == "even":
        return at % 2 == 0
    if rule == "pattern":
        every = config.whole_or_none("sliding_window_pattern", "_sliding_window_pattern") or 4
        return (at + 1) % every != 0
    if rule == "use_sliding_window":
        first = config.whole_or_none("max_window_layers") or 0
        return config.flag("use_sliding_window", False) and at >= first
    return True
