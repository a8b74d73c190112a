"""How long an engine step takes.

duration = (base + prefill_tokens * per prefill token + decode_sequences * per decode) / speed

Decode is bound by reading the weights, so the base dominates it and a larger batch is almost free;
prefill is bound by arithmetic and costs in proportion. The defaults are those of a model with
8 billion parameters on a small data-center GPU.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds; `speed` 2.0 halves them all, and infinity makes every step free."""

    base_s: float = 0.010
    prefill_token_s: float = 80e-6
    decode_sequence_s: float = 60e-6
    speed: float = 1.0

    def __post_init__(self) -> None:
        if min(self.base_s, self.prefill_token_s, self.decode_sequence_s) < 0:
            raise ValueError("a step cannot take less than no time")
        if not self.speed > 0:
            raise ValueError(f"speed must be above 0, got {self.speed}")

    def duration_s(self, prefill_tokens: int, decode_sequences: int) -> float:
        work_s = (
            self.base_s
            + prefill_tokens * self.prefill_token_s
            + decode_sequences * self.decode_sequence_s
        )
        return work_s / self.speed
