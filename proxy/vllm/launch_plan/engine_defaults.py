"""What vLLM 0.32 takes for --max-num-seqs and --max-num-batched-tokens when nobody says.

Source: engine/arg_utils.py, EngineArgs.get_batch_defaults, for `vllm serve` on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.cards import Card

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    max_num_seqs: int
    max_num_batched_tokens: int


def engine_defaults(card: Card) -> EngineDefaults:
    if card.memory >= 160 * _GIB:
        return EngineDefaults(1024, 16_384)
    if card.memory >= 70 * _GIB and not card.is_a100:
        return EngineDefaults(1024, 8192)
    return EngineDefaults(256, 2048)
