"""The batch that the engine died on: V1 writes its scheduler's output down when a step fails."""

import re
from dataclasses import dataclass

_TOTAL = re.compile(r"total_num_scheduled_tokens=(\d{1,12})")
_PER_REQUEST = re.compile(r"num_scheduled_tokens=\{([^}]*)\}")
_ENCODER = re.compile(r"scheduled_encoder_inputs=\{[^}]*:")
_PROMPT_LOGPROBS = re.compile(r"prompt_logprobs=(\d{1,12})")
_NEW = re.compile(r"NewRequestData\(")
MOST_DECODE_TOKENS = 16  # of one request in one step: speculation drafts a few


@dataclass(frozen=True, slots=True)
class StepDump:
    """What one step was to compute."""

    tokens: int
    requests: int
    longest: int
    new_requests: int
    has_encoder_inputs: bool
    wants_prompt_logprobs: bool

    @property
    def is_decode(self) -> bool:
        return self.new_requests == 0 and self.longest <= MOST_DECODE_TOKENS

    @property
    def is_prefill(self) -> bool:
        return not self.is_decode


def read_step_dump(text: str) -> StepDump | None:
    total = _TOTAL.search(text)
    if total is None:
        return None
    per_request = _PER_REQUEST.search(text)
    tokens = (
        [int(count) for count in re.findall(r": ?(\d{1,12})\b", per_request[1])]
        if per_request
        else []
    )
    return StepDump(
        tokens=int(total[1]),
        requests=len(tokens),
        longest=max(tokens, default=int(total[1])),
        new_requests=len(_NEW.findall(text)),
        has_encoder_inputs=bool(_ENCODER.search(text)),
        wants_prompt_logprobs=bool(_PROMPT_LOGPROBS.search(text)),
    )
