"""A `config.json` of Hugging Face's kind, as a ModelShape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.attention_layout import (
    HIDDEN,
    absorbed_weight,
    read_attention,
)
from proxy.vllm.launch_plan.families import family_of, is_known, not_modelled
from proxy.vllm.launch_plan.mlp_layout import read_mlp
from proxy.vllm.launch_plan.problem import NotModelledError
from proxy.vllm.launch_plan.shape import Attention, Kind, Layer, ModelShape, Split, Weight

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.config_fields import ConfigFields
    from proxy.vllm.launch_plan.families import Family

# Where the language model of a multimodal one is described.
_TEXT = ("text_config", "llm_config", "language_config", "language_model_config")
_OTHER_INPUTS = ("vision_config", "vision_tower_config", "audio_config", "visual")
_VOCABULARY = ("vocab_size", "padded_vocab_size")
_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
)


def read_model(config: ConfigFields) -> ModelShape:
    """Raises PlanError for what is missing or malformed, NotModelledError for what a KV cache of
    keys and values for each token does not describe."""
    text = _text_part(config)
    for part in (config, text):
        what = not_modelled(dict(part.values))
        if what is not None:
            raise NotModelledError(
                f"{part.place}: {part.text('model_type') or 'this model'} has {what}; what those "
                f"keep is not modelled here: start the engine and give its log with --from"
            )
    family = family_of(text.text("model_type") or config.text("model_type"))
    text = text.over(dict(family.defaults))
    return _shape(config, text, family)


def _text_part(config: ConfigFields) -> ConfigFields:
    thinker = config.object("thinker_config")
    if thinker is not None:
        return _text_part(thinker)
    nested = config.object(*_TEXT)
    if nested is None:
        return config
    outer = config.text("model_type")
    return nested.over({"model_type": outer} if outer else {})


def quantization_section(config: ConfigFields) -> ConfigFields | None:
    """Where the file says how its weights are stored; None when it does not."""
    names = ("quantization_config", "compression_config")
    return config.object(*names) or _text_part(config).object(*names)


def _shape(config: ConfigFields, text: ConfigFields, family: Family) -> ModelShape:
    hidden, vocabulary = text.whole(*HIDDEN), text.whole(*_VOCABULARY)
    attention, mlp = read_attention(text, family), read_mlp(text, family)
    norms = Weight(2 * hidden, kind=Kind.PLAIN, split=Split.REPLICATED)
    layers = tuple(
        Layer(kept, (*attention.weights, *own, norms))
        for kept, own in zip(attention.layers, mlp.layers, strict=True)
    )
    tied = _is_tied(config, text, family)
    embedding = vocabulary * (text.whole_or_none("word_embed_proj_dim") or hidden)
    vision = _vision_tower(config)
    head = () if tied else (Weight(vocabulary * hidden, kind=Kind.PLAIN),)
    return ModelShape(
        name=_name(config),
        layers=layers,
        hidden=hidden,
        heads=attention.heads,
        query_size=attention.query_size,
        mlp_size=mlp.size,
        vocabulary=vocabulary,
        embedding=embedding,
        first=(Weight(embedding, kind=Kind.PLAIN), *_positions(text, family, hidden), *vision),
        last=(Weight(hidden, kind=Kind.PLAIN, split=Split.REPLICATED), *head),
        tied=tied,
        max_model_len=text.whole_or_none(*_LENGTHS),
        dtype=config.text("torch_dtype", "dtype") or text.text("torch_dtype", "dtype") or "auto",
        expert_share=mlp.expert_share,
        expert_count=mlp.expert_count,
        absorbed=absorbed_weight(text),
        multimodal=any(config.has(name) for name in _OTHER_INPUTS),
        notes=tuple(_notes(config, text)),
    )


def _name(config: ConfigFields) -> str:
    named = config.text("_name_or_path")
    architectures = config.items("architectures") or []
    return named or next(map(str, architectures), None) or config.text("model_type") or "model"


def _is_tied(config: ConfigFields, text: ConfigFields, family: Family) -> bool:
    outer = config.flag("tie_word_embeddings", family.tied)
    return text.flag("tie_word_embeddings", outer)


def _positions(text: ConfigFields, family: Family, hidden: int) -> tuple[Weight, ...]:
    if family.learned_positions is None:
        return ()
    rows = text.whole(family.learned_positions) + family.position_offset
    return (Weight(rows * hidden, kind=Kind.PLAIN, split=Split.REPLICATED),)


def _vision_tower(config: ConfigFields) -> tuple[Weight, ...]:
    """An estimate: the layers of a vision transformer, without its patches and its projection."""
    vision = config.object("vision_config")
    if vision is None:
        return ()
    layers = vision.whole_or_none("num_hidden_layers", "depth")
    size = vision.whole_or_none("embed_dim", "hidden_size")
    if layers is None or size is None:
        return ()
    between = vision.whole_or_none("intermediate_size") or 4 * size
    gated = 3 if "silu" in (vision.text("hidden_act") or "") else 2
    return (Weight(layers * (4 * size * size + gated * size * between), kind=Kind.PLAIN),)


def _notes(config: ConfigFields, text: ConfigFields) -> list[str]:
    notes = []
    kind = text.text("model_type")
    if not is_known(kind):
        notes.append(
            f"the model type {kind!r} is not in the table: its MLP is taken for one of three "
            f"matrices, as in Llama"
        )
    if any(config.has(name) for name in _OTHER_INPUTS):
        notes.append(
            "multimodal: its towers are estimated from their layers, and what the encoder needs "
            "for an image is not counted; see --limit-mm-per-prompt"
        )
    if kind in ("llama4", "llama4_text"):
        notes.append(
            "chunked attention: vLLM keeps all tokens in every layer, for it turns its hybrid "
            "cache manager off"
        )
    return notes


def shape_from_numbers(
    *,
    layers: int,
    kv_heads: int,
    head_dim: int,
    hidden: int,
    parameters: int,
    vocabulary: int | None = None,
    heads: int | None = None,
) -> ModelShape:
    """A dense model of which only this is known; its weights are taken to split evenly."""
    vocabulary_ = vocabulary or 128_256
    heads_ = heads or max(kv_heads, hidden // head_dim)
    between = 3 * max(1, (parameters // layers) // (3 * hidden))
    layer = Layer(Attention(kv_heads, head_dim, head_dim), (Weight(parameters // layers),))
    return ModelShape(
        name="model",
        layers=(layer,) * layers,
        hidden=hidden,
        heads=heads_,
        query_size=heads_ * head_dim,
        mlp_size=between,
        vocabulary=vocabulary_,
        embedding=0,
        first=(),
        last=(Weight(parameters - parameters // layers * layers, split=Split.REPLICATED),),
        dtype="auto",
        notes=(
            "from numbers alone: weights split evenly over cards and layers"
            + ("" if vocabulary else f", a vocabulary of {vocabulary_:,} is assumed"),
        ),
    )


def with_parameters(shape: ModelShape, parameters: int) -> ModelShape:
    """The same model, its weights scaled to a number of parameters that is known better."""
    factor = parameters / shape.parameters

    def scaled(weights: tuple[Weight, ...]) -> tuple[Weight, ...]:
        return tuple(replace(each, parameters=round(each.parameters * factor)) for each in weights)

    return replace(
        shape,
        layers=tuple(replace(layer, weights=scaled(layer.weights)) for layer in shape.layers),
        first=scaled(shape.first),
        last=scaled(shape.last),
        embedding=round(shape.embedding * factor),
        notes=(*shape.notes, f"weights scaled by {factor:.3f} to the parameters given"),
    )
