"""What can go wrong with an engine, as data, with a short written form.

stall            stops stepping; stays alive and answers /health      stall:5    for 5 s
die              dead at once: every later request is answered 500
oom:4096         dies of CUDA out of memory in a step with more than 4096 prefill tokens
slow:3           every step takes three times as long
reset:20         breaks streams off after 20 tokens

Each may end in `@30`: not before 30 s have passed.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.env_values.plain_numbers import plain_number


@dataclass(frozen=True, slots=True)
class Stall:
    """`for_s` None: for good."""

    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Die:
    pass


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    above_prefill_tokens: int


@dataclass(frozen=True, slots=True)
class Slow:
    factor: float


@dataclass(frozen=True, slots=True)
class ResetStreams:
    after_tokens: int


Fault = Stall | Die | OutOfMemory | Slow | ResetStreams


@dataclass(frozen=True, slots=True)
class TimedFault:
    """A fault, and when it sets in: seconds from the start, or from when it was asked for."""

    fault: Fault
    at_s: float = 0.0


def parse_fault(text: str) -> TimedFault:
    """Reads the written form. Raises ValueError with one line that says what is wrong."""
    described, _, at = text.strip().partition("@")
    kind, _, value = described.partition(":")
    return TimedFault(_fault(kind, value, text), _number(at, text) if at else 0.0)


def _fault(kind: str, value: str, text: str) -> Fault:
    match kind:
        case "stall":
            return Stall(_number(value, text) if value else None)
        case "die" if not value:
            return Die()
        case "oom":
            return OutOfMemory(int(_number(value, text)))
        case "slow":
            return Slow(_number(value, text))
        case "reset":
            return ResetStreams(int(_number(value, text)))
    raise ValueError(f"fault {text!r} is none of stall, die, oom:TOKENS, slow:FACTOR, reset:TOKENS")


def _number(value: str, text: str) -> float:
    number = plain_number(value)
    if number is None:
        raise ValueError(f"fault {text!r} needs a number where it says {value!r}")
    if number < 0:
        raise ValueError(f"fault {text!r}: {value} is out of range")
    return number
