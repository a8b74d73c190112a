"""One sequence on its way through the engine: a prompt, and the tokens that follow it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class FinishReason(enum.Enum):
    """Why a sequence ended. The values are the labels of vLLM's `request_success_total`."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REPETITION = "repetition"


@dataclass(slots=True, eq=False)
class Sequence:
    """What the engine is asked for, and how far it has come. Times are seconds on its clock.

    `max_tokens` 0 asks for no output at all: a pooling request, finished by its prefill.
    `stop_after`: the model ends by itself after that many tokens (None: it never does).
    """

    prompt_tokens: int
    max_tokens: int
    stop_after: int | None = None

    generated: int = field(default=0, init=False)
    computed: int = field(default=0, init=False)
    """Tokens, of prompt and output, whose keys and values are in the cache."""
    planned: int = field(default=0, init=False)
    """Tokens that the step under way computes."""
    blocks: int = field(default=0, init=False)
    preemptions: int = field(default=0, init=False)
    arrived_s: float = field(default=0.0, init=False)
    scheduled_s: float | None = field(default=None, init=False)
    first_token_s: float | None = field(default=None, init=False)
    last_token_s: float = field(default=0.0, init=False)
    finished_s: float | None = field(default=None, init=False)
    finish_reason: FinishReason | None = field(default=None, init=False)

    @property
    def tokens(self) -> int:
        """Prompt and output so far."""
        return self.prompt_tokens + self.generated

    @property
    def missing(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.prompt_tokens + self.generated - self.computed

    @property
    def in_decode(self) -> bool:
        """Its next step computes one token: the one sampled last."""
        return self.generated > 0 and self.missing == 1

    def reason_to_finish(self) -> FinishReason | None:
        """Asked after each token; None: it goes on."""
        if self.stop_after is not None and self.generated >= self.stop_after:
            return FinishReason.STOP
        if self.generated < self.max_tokens:
            return None
        return FinishReason.LENGTH if self.max_tokens else FinishReason.STOP
