"""The lengths of requests: percentiles that somebody gave, or the requests of a trace.

From percentiles a sample is made: lengths are log-normal through p50 and p95 (above p95 through
p99, if there is one), prompts and outputs independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from proxy.env_values.plain_numbers import is_read_as_more
from proxy.vllm.launch_plan.problem import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GRID = 32
_MOST_PAIRS = 20_000
_Z95, _Z99 = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.99)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens; `p99` may be unknown."""

    p50: int
    p95: int
    p99: int | None = None

    def at(self, z: float) -> float:
        """The length so many standard deviations above the median of its logarithm."""
        below = math.log(self.p95 / self.p50) / _Z95
        if z <= _Z95 or self.p99 is None:
            return self.p50 * math.exp(below * z)
        return self.p95 * math.exp(math.log(self.p99 / self.p95) * (z - _Z95) / (_Z99 - _Z95))

    @property
    def longest_likely(self) -> int:
        """p99, or where the same curve has it."""
        return self.p99 or math.ceil(self.at(_Z99))

    def plus(self, other: Lengths) -> Lengths:
        """Both long at once: an upper bound for the percentiles of the sum."""
        both = self.p99 is not None and other.p99 is not None
        longest = self.longest_likely + other.longest_likely if both else None
        return Lengths(self.p50 + other.p50, self.p95 + other.p95, longest)


@dataclass(frozen=True, slots=True)
class Traffic:
    """`requests`: (prompt, output) tokens of a sample that stands for all; `made_up` from
    percentiles."""

    source: str
    prompt: Lengths
    output: Lengths
    total: Lengths
    requests: tuple[tuple[int, int], ...]
    made_up: bool = False

    @property
    def mean_prompt(self) -> float:
        return sum(prompt for prompt, _ in self.requests) / len(self.requests)

    @property
    def mean_output(self) -> float:
        return sum(output for _, output in self.requests) / len(self.requests)


# The first 2,000 requests of the Azure 2023 conversation trace (CC-BY-4.0), for want of a better
# guess at what somebody's chat looks like.
ASSUMED_PROMPT = Lengths(1032, 4079, 4100)
ASSUMED_OUTPUT = Lengths(238, 498, 625)


def parse_lengths(text: str, option: str) -> Lengths:
    """`p50,p95` or `p50,p95,p99`. Raises PlanError."""
    parts = text.split(",")
    try:
        numbers = [] if any(map(is_read_as_more, parts)) else [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3):
        raise PlanError(
            f"{option} {text!r}: give whole numbers of tokens as p50,p95 or p50,p95,p99"
        )
    if numbers[0] < 1 or sorted(numbers) != numbers:
        raise PlanError(f"{option} {text!r}: percentiles start at 1 and must not fall")
    return Lengths(*numbers)


def traffic_of_percentiles(prompt: Lengths, output: Lengths, source: str) -> Traffic:
    prompts, outputs = _grid(prompt), _grid(output)
    return Traffic(
        source,
        prompt,
        output,
        prompt.plus(output),
        tuple((a, b) for a in prompts for b in outputs),
        made_up=True,
    )


def assumed_traffic() -> Traffic:
    return traffic_of_percentiles(
        ASSUMED_PROMPT,
        ASSUMED_OUTPUT,
        "assumed, as none was given: the Azure 2023 conversation trace",
    )


def traffic_of_requests(requests: Iterable[tuple[int, int]], source: str) -> Traffic:
    """From the tokens of a trace's requests. Raises PlanError when there are none."""
    pairs = [(max(1, prompt), max(1, output)) for prompt, output in requests]
    if not pairs:
        raise PlanError(f"{source}: no request with prompt and output tokens in it")
    return Traffic(
        f"{source}, {len(pairs):,} requests",
        _percentiles([prompt for prompt, _ in pairs]),
        _percentiles([output for _, output in pairs]),
        _percentiles([prompt + output for prompt, output in pairs]),
        tuple(pairs[:: -(-len(pairs) // _MOST_PAIRS)]),
    )


def _grid(lengths: Lengths) -> list[int]:
    normal = NormalDist()
    return [
        max(1, round(lengths.at(normal.inv_cdf((step + 0.5) / _GRID)))) for step in range(_GRID)
    ]


def _percentiles(values: Sequence[int]) -> Lengths:
    ordered = sorted(values)

    def rank(share: float) -> int:
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    return Lengths(rank(0.50), rank(0.95), rank(0.99))
