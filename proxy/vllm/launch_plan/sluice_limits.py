"""Sluice's settings for an engine of that size.

    seats            n: sequences that fit, at most floor(N x headroom), below N = --max-num-seqs
    queue timeout    S / 4, from 2 to 10 s: who would wait longer is better told at once
    queue depth      n / S x timeout: deeper in the queue nobody is served in time
    prefill tokens   what is computed in half the timeout, at least 4 steps and 2 prompts of p99

S: service time. Without one the depth stays at its default, as many as seats, and the timeout too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.service_time import ServiceTime

_SHORTEST_S, _LONGEST_S, _DEFAULT_S = 2, 10, 5
_WAITING_SHARE = 4
_STEPS = 4
_PROMPTS = 2
# Round numbers where they cost little: from so many on, a multiple of so many.
_ROUNDED = ((128, 8), (32, 4))


@dataclass(frozen=True, slots=True)
class SluiceLimits:
    """`max_prefill_tokens` is None where it could never bind."""

    max_num_seqs: int
    max_in_flight: int
    max_queue_depth: int
    queue_timeout_s: int
    max_prefill_tokens: int | None

    def environment(self) -> dict[str, str]:
        settings = {
            "SLUICE_MAX_NUM_SEQS": str(self.max_num_seqs),
            "SLUICE_MAX_IN_FLIGHT": str(self.max_in_flight),
            "SLUICE_MAX_QUEUE_DEPTH": str(self.max_queue_depth),
            "SLUICE_QUEUE_TIMEOUT": str(self.queue_timeout_s),
            "SLUICE_MAX_KV_TOKENS": "auto",
        }
        if self.max_prefill_tokens is not None:
            settings["SLUICE_MAX_PREFILL_TOKENS"] = str(self.max_prefill_tokens)
        return settings


def seats_below(max_num_seqs: int, headroom: float) -> int:
    """floor(N x headroom), as Sluice takes it, and below N wherever that is possible."""
    return max(1, min(int(max_num_seqs * Decimal(str(headroom))), max_num_seqs - 1))


def engine_sequences(fitting: int, headroom: float, most: int) -> int:
    """The largest --max-num-seqs whose seats all fit; large ones are rounded down."""
    number = int((max(1, fitting) + 1) / Decimal(str(headroom)))
    while number > 2 and seats_below(number, headroom) > fitting:
        number -= 1
    number -= next((number % step for least, step in _ROUNDED if number >= least), 0)
    return max(2, min(number, most))


def sluice_limits(
    *,
    max_num_seqs: int,
    fitting: int,
    headroom: float,
    service: ServiceTime | None,
    step_tokens: int,
    longest_prompt: int,
    kv_tokens: int,
) -> SluiceLimits:
    seats = max(1, min(seats_below(max_num_seqs, headroom), fitting))
    timeout_s, depth, prefill = _DEFAULT_S, seats, _STEPS * step_tokens
    if service is not None:
        waiting_s = service.mean_s / _WAITING_SHARE
        timeout_s = min(_LONGEST_S, max(_SHORTEST_S, math.ceil(waiting_s)))
        depth = max(1, math.ceil(service.per_second * timeout_s))
        if service.tokens_per_s is not None:
            prefill = max(prefill, int(service.tokens_per_s * timeout_s / 2))
    prefill = max(prefill, _PROMPTS * longest_prompt)
    bound = None if prefill >= min(kv_tokens, seats * longest_prompt) else _tidy(prefill)
    return SluiceLimits(max_num_seqs, seats, depth, timeout_s, bound)


def _tidy(number: int) -> int:
    """To two digits, so that nobody takes an estimate for a measurement."""
    digits = max(0, len(str(number)) - 2)
    return round(number, -digits)
