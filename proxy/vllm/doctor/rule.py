"""What a rule is: which line says what, how strongly, and what excludes it."""

import re
from dataclasses import dataclass

from proxy.vllm.doctor.evidence import Phase

DECIDES, STRONG, HINT, SYMPTOM = 3, 2, 1, 0

# What a client wrote, or a hint that is printed on good days too.
TALK = r"\bReceived request|\bAdded request|SamplingParams\(|If out-of-memory error occurs"
# Numbers as they stand in the engine's sentences; bounded, as Python's are when read from text.
WHOLE = r"\d{1,12}"
REAL = r"-?\d{1,12}(?:\.\d{1,12})?"


@dataclass(frozen=True, slots=True)
class Rule:
    """`strength`: 3 decides, 2 is strong, 1 is a hint, 0 comes of something else.

    The named groups of `pattern` become the sign's numbers; `unless` is what excludes it.
    """

    name: str
    phase: Phase
    strength: int
    says: str
    needles: tuple[str, ...]  # one of them is in every line that the pattern matches
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    oom: bool = False  # the accelerator's memory ran out


def rule(
    name: str,
    phase: Phase,
    strength: int,
    says: str,
    pattern: str,
    *needles: str,
    unless: str | None = None,
    oom: bool = False,
) -> Rule:
    excluded = re.compile(unless) if unless else None
    return Rule(name, phase, strength, says, needles, re.compile(pattern), excluded, oom)
