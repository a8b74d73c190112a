"""What a `config.json` does not say because the family's code knows it. Data.

Source of the defaults: each family's configuration class in transformers 5, and vLLM 0.32's model
files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """`gated`: an MLP of three matrices, not two. `tied`: whether the head is the embedding where
    the file does not say. `learned_positions`: a table of embeddings for positions. `window_rule`
    says which layers keep a window where the file has no `layer_types`: all, none, even (0, 2,
    4...), or every n-th layer keeps everything. `defaults` stand for keys that files leave out."""

    gated: bool = True
    tied: bool = False
    learned_positions: str | None = None
    position_offset: int = 0
    window_rule: str = "all"
    defaults: tuple[tuple[str, Any], ...] = ()


_GEMMA3_TEXT = (
    ("vocab_size", 262_208),
    ("hidden_size", 2304),
    ("intermediate_size", 9216),
    ("num_hidden_layers", 26),
    ("num_attention_heads", 8),
    ("num_key_value_heads", 4),
    ("head_dim", 256),
    ("max_position_embeddings", 131_072),
    ("sliding_window", 4096),
    ("sliding_window_pattern", 6),
)
_LLAMA4_TEXT = (
    ("attention_chunk_size", 8192),
    ("interleave_moe_layer_step", 1),
    ("head_dim", 128),
    ("vocab_size", 202_048),
)

_UNKNOWN = Family()
_FAMILIES: dict[str, Family] = {
    "bloom": Family(gated=False, tied=True),
    "cohere": Family(tied=True),
    "cohere2": Family(tied=True, window_rule="pattern"),
    "deepseek_v2": Family(window_rule="none"),
    "deepseek_v3": Family(window_rule="none"),
    "falcon": Family(gated=False, tied=True),
    "RefinedWeb": Family(gated=False, tied=True),
    "RefinedWebModel": Family(gated=False, tied=True),
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, window_rule="even", defaults=(("head_dim", 256),)),
    "gemma3": Family(tied=True, window_rule="pattern", defaults=_GEMMA3_TEXT),
    "gemma3_text": Family(tied=True, window_rule="pattern", defaults=_GEMMA3_TEXT),
    "gpt2": Family(gated=False, tied=True, learned_positions="n_positions"),
    "gpt_bigcode": Family(gated=False, tied=True, learned_positions="n_positions"),
    "gpt_neox": Family(gated=False),
    "gptj": Family(gated=False),
    "gpt_oss": Family(window_rule="even"),
    # Its chunked attention is kept in full: vLLM turns its hybrid cache manager off for it.
    "llama4": Family(window_rule="none", defaults=_LLAMA4_TEXT),
    "llama4_text": Family(window_rule="none", defaults=_LLAMA4_TEXT),
    "mpt": Family(gated=False, tied=True),
    "nemotron": Family(gated=False),
    "opt": Family(
        gated=False, tied=True, learned_positions="max_position_embeddings", position_offset=2
    ),
    "phi": Family(gated=False),
    "qwen2": Family(window_rule="use_sliding_window"),
    "qwen2_moe": Family(window_rule="use_sliding_window"),
    "qwen3": Family(window_rule="use_sliding_window"),
    "qwen3_moe": Family(window_rule="use_sliding_window"),
    "qwen2_vl": Family(window_rule="use_sliding_window"),
    "qwen2_5_vl": Family(window_rule="use_sliding_window"),
    "starcoder2": Family(gated=False, tied=True),
}

# Layers that keep a state instead of keys and values, share them, or keep several kinds of them.
_NOT_MODELLED = {
    "bamba": "Mamba layers",
    "bailing_hybrid": "linear attention layers",
    "bart": "an encoder beside the decoder",
    "bert": "no decoder, and so no KV cache",
    "deepseek_v32": "an indexer's cache beside the KV cache",
    "deepseek_v4": "several kinds of compressed KV cache",
    "falcon_h1": "Mamba layers",
    "falcon_mamba": "Mamba layers",
    "gemma3n": "layers that share their KV cache",
    "gemma3n_text": "layers that share their KV cache",
    "gemma4": "layers of different KV sizes, some of which share them",
    "gemma4_text": "layers of different KV sizes, some of which share them",
    "granitemoehybrid": "Mamba layers",
    "jamba": "Mamba layers",
    "kimi_linear": "linear attention layers",
    "lfm2": "convolution layers",
    "lfm2_moe": "convolution layers",
    "longcat_flash": "two attention layers in each layer",
    "mamba": "Mamba layers",
    "mamba2": "Mamba layers",
    "minimax": "linear attention layers",
    "minimax_text_01": "linear attention layers",
    "mllama": "cross attention layers",
    "nemotron-nas": "layers of different shapes",
    "nemotron_h": "Mamba layers",
    "plamo2": "Mamba layers",
    "qwen3_next": "linear attention layers",
    "qwen3_5": "linear attention layers",
    "qwen3_5_moe": "linear attention layers",
    "recurrent_gemma": "recurrent layers",
    "roberta": "no decoder, and so no KV cache",
    "rwkv": "recurrent layers",
    "t5": "an encoder beside the decoder",
    "whisper": "an encoder beside the decoder",
    "xlm-roberta": "no decoder, and so no KV cache",
    "zamba": "Mamba layers",
    "zamba2": "Mamba layers",
}
# Keys that only such models have, whatever their type is called.
_TELLING_KEYS = {
    "mamba_d_state": "Mamba layers",
    "mamba_num_heads": "Mamba layers",
    "ssm_cfg": "Mamba layers",
    "ssm_state_size": "Mamba layers",
    "layers_block_type": "layers of several kinds",
    "hybrid_override_pattern": "layers of several kinds",
    "linear_num_value_heads": "linear attention layers",
    "linear_attn_config": "linear attention layers",
    "conv_L_cache": "convolution layers",
    "index_topk": "an indexer's cache beside the KV cache",
    "compress_ratios": "several kinds of compressed KV cache",
    "num_kv_shared_layers": "layers that share their KV cache",
    "block_configs": "layers of different shapes",
    "global_head_dim": "layers of different KV sizes",
}
ATTENTION_LAYER_TYPES = {"full_attention", "sliding_attention", "chunked_attention", "attention"}


def family_of(model_type: str | None) -> Family:
    """An unknown type is taken for one of Llama's kind, which most are."""
    return _FAMILIES.get(model_type or "", _UNKNOWN)


def is_known(model_type: str | None) -> bool:
    return model_type in _FAMILIES or model_type in {"llama", "mistral", "mixtral", "phi3"}


def not_modelled(values: dict[str, Any]) -> str | None:
    """What in the model this arithmetic does not cover; None when there is nothing of the kind."""
    model_type = values.get("model_type")
    if isinstance(model_type, str) and model_type in _NOT_MODELLED:
        return _NOT_MODELLED[model_type]
    for key, what in _TELLING_KEYS.items():
        if values.get(key):
            return what
    if values.get("is_encoder_decoder"):
        return "an encoder beside the decoder"
    types = values.get("layer_types")
    others = set(map(str, types)) - ATTENTION_LAYER_TYPES if isinstance(types, list) else set()
    return f"layers of the type {min(others)}" if others else None
