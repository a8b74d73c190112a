#!/usr/bin/env python3
"""Writes a tiny Llama model into a folder: configuration and tokenizer, no weights.

vLLM fills in random weights with `--load-format dummy`. The same files come out every time: the
tokenizer is trained on words that are drawn with a fixed seed. Runs in vLLM's environment.

    make_tiny_model.py FOLDER
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast

VOCABULARY = 1024
_SPECIAL_TOKENS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _config().save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def _config() -> LlamaConfig:
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        num_hidden_layers=2,
        hidden_size=128,
        intermediate_size=256,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
    )


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(_SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_lines(), trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"{tokenizer.get_vocab_size()} tokens instead of {VOCABULARY}")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=_CHAT_TEMPLATE, **_SPECIAL_TOKENS
    )


def _lines() -> list[str]:
    rng = random.Random(0)
    return [" ".join(_word(rng) for _ in range(12)) for _ in range(1000)]


def _word(rng: random.Random) -> str:
    syllables = range(rng.randint(1, 3))
    return "".join(rng.choice("bcdfghklmnprstvw") + rng.choice("aeiou") for _ in syllables)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_tiny_model.py FOLDER")
    main(Path(sys.argv[1]))
