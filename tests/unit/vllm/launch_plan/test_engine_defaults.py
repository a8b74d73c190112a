from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.cards import parse_card
from proxy.vllm.launch_plan.engine_defaults import EngineDefaults, engine_defaults


@pytest.mark.parametrize(
    ("card", "sequences", "tokens"),
    [
        ("H100", 1024, 8192),
        ("H200", 1024, 8192),
        ("B200", 1024, 16_384),
        ("A100-80G", 256, 2048),
        ("L40S", 256, 2048),
        ("80GiB", 1024, 8192),
    ],
)
def test_defaults_are_those_of_vllm_for_the_card(card: str, sequences: int, tokens: int) -> None:
    assert engine_defaults(parse_card(card)) == EngineDefaults(sequences, tokens)
