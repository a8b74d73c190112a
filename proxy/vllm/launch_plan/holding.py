"""How many sequences the KV cache holds at once without preempting any.

A request of prompt p and output o holds p + f o tokens when the share f of its output is written,
and is there for a time that grows with o. So a sequence picked at random from those that run holds

    m = E[o blocks(p + f o)] / E[o]        f even from 0 to 1

blocks, with the deviation s likewise. n of them hold more than n m + z s sqrt(n) in one case out of
a hundred (z = 2.33), so the largest n with

    n m + z s sqrt(n) <= blocks of the cache

fits nearly always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.kv_cache import KvLayout
    from proxy.vllm.launch_plan.traffic import Traffic

RARELY = 2.33
_WRITTEN = (0.125, 0.375, 0.625, 0.875)


@dataclass(frozen=True, slots=True)
class Holding:
    """Of one running sequence: blocks on average, their deviation, and tokens on average."""

    blocks: float
    deviation: float
    tokens: float


def holding(traffic: Traffic, layout: KvLayout, max_model_len: int) -> Holding:
    """Longer requests than the engine takes are cut to what it takes."""
    weight = tokens = blocks = squares = 0.0
    for prompt, output in traffic.requests:
        prompt = min(prompt, max_model_len - 1)
        output = min(output, max_model_len - prompt)
        for written in _WRITTEN:
            held = prompt + written * output
            taken = layout.blocks_held(held)
            weight += output
            tokens += output * held
            blocks += output * taken
            squares += output * taken * taken
    mean = blocks / weight
    spread = math.sqrt(max(0.0, squares / weight - mean * mean))
    return Holding(mean, spread, tokens / weight)


def sequences_that_fit(each: Holding, blocks: int) -> int:
    """0 when not even one of average length does."""
    if blocks <= 0:
        return 0
    spread = RARELY * each.deviation
    root = (math.sqrt(spread * spread + 4 * each.blocks * blocks) - spread) / (2 * each.blocks)
    return int(root * root)
