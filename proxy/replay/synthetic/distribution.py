"""Distributions of lengths and of patience, and how they are written.

    512                    every time
    uniform:100-900        evenly between two values
    exponential:30         by its mean
    lognormal:200,1500     by its median and 95th percentile:
                           ln x = ln p50 + z ln(p95 / p50) / 1.6449, z standard normal

A lognormal is what prompts and answers of chats look like; its values are cut at ten times the
95th percentile, for one in a million would be a context that no model has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Protocol

from proxy.replay.synthetic.specification import BadSpecificationError, positive, split

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_Z95 = 1.6448536269514722
_CUT = 10.0
_FORMS = "512, uniform:100-900, exponential:30 or lognormal:P50,P95"


class Distribution(Protocol):
    def draw(self, rng: random.Random) -> float:
        """The next value, above 0."""


@dataclass(frozen=True, slots=True)
class Fixed:
    value: float

    def draw(self, rng: random.Random) -> float:  # noqa: ARG002 - Distribution's signature
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    low: float
    high: float

    def draw(self, rng: random.Random) -> float:
        return rng.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Exponential:
    mean: float

    def draw(self, rng: random.Random) -> float:
        return rng.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class Lognormal:
    p50: float
    p95: float

    def draw(self, rng: random.Random) -> float:
        sigma = log(self.p95 / self.p50) / _Z95
        return min(self.p50 * exp(sigma * rng.gauss(0, 1)), _CUT * self.p95)


def parse_distribution(
    written: str, what: str, value: Callable[[str, str], float] = positive
) -> Distribution:
    """`value` reads one number, with its unit if it has one. Raises BadSpecificationError."""
    name, plain, named = split(written)
    if not plain and not named:
        return Fixed(_above_zero(value(name, what), what))
    try:
        return _READERS[name](plain, named, what, value)
    except (KeyError, IndexError):
        raise BadSpecificationError(f"{what} is {written!r}; write {_FORMS}") from None


_Values = list[str]


def _uniform(
    plain: _Values, _named: dict[str, str], what: str, value: Callable[[str, str], float]
) -> Distribution:
    low, _, high = plain[0].partition("-")
    return _ordered(Uniform, value(low, what), value(high, what), what)


def _exponential(
    plain: _Values, named: dict[str, str], what: str, value: Callable[[str, str], float]
) -> Distribution:
    return Exponential(_above_zero(value(named.get("mean") or plain[0], what), what))


def _lognormal(
    plain: _Values, named: dict[str, str], what: str, value: Callable[[str, str], float]
) -> Distribution:
    p50, p95 = (named["p50"], named["p95"]) if named else (plain[0], plain[1])
    return _ordered(Lognormal, value(p50, what), value(p95, what), what)


_READERS: dict[
    str, Callable[[_Values, dict[str, str], str, Callable[[str, str], float]], Distribution]
] = {"uniform": _uniform, "exponential": _exponential, "lognormal": _lognormal}


def _ordered(
    make: Callable[[float, float], Distribution], low: float, high: float, what: str
) -> Distribution:
    if not 0 < low <= high:
        raise BadSpecificationError(f"{what}: {low:g} and {high:g} are not above 0 and in order")
    return make(low, high)


def _above_zero(value: float, what: str) -> float:
    if value <= 0:
        raise BadSpecificationError(f"{what} must be above 0")
    return value
