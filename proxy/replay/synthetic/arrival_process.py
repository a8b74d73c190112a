"""When requests arrive in a load that is made up, and how that is written.

    poisson:20                   20 a second, independent of each other
    constant:20                  one every 50 ms
    gamma:20,cv=3                20 a second in bursts: gaps with a coefficient of variation of 3
    ramp:5-50                    Poisson, the rate rising evenly over the duration
    step:5@60s,50@30s,5@60s      Poisson, one rate after another, over and over

Gamma gaps have shape 1/cv^2 and scale cv^2/rate; cv = 1 is Poisson. A rate r(t) that changes is
played by time change: the next arrival is where the integral of r has grown by an exponential
variate of mean 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Protocol

from proxy.replay.synthetic.specification import (
    BadSpecificationError,
    duration_s,
    positive,
    split,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

_FORMS = "poisson:20, constant:20, gamma:20,cv=3, ramp:5-50 or step:5@60s,50@30s"


class ArrivalProcess(Protocol):
    def times_s(self, duration_s: float, rng: random.Random) -> Iterator[float]:
        """In ascending order, from 0 up to, not including, `duration_s`."""


@dataclass(frozen=True, slots=True)
class Constant:
    rate_per_s: float

    def times_s(self, duration_s: float, rng: random.Random) -> Iterator[float]:  # noqa: ARG002 - ArrivalProcess's signature
        number = 0
        while (at_s := number / self.rate_per_s) < duration_s:
            yield at_s
            number += 1


@dataclass(frozen=True, slots=True)
class GammaBursts:
    rate_per_s: float
    variation: float = 1.0

    def times_s(self, duration_s: float, rng: random.Random) -> Iterator[float]:
        shape = self.variation**-2
        scale_s = 1 / (shape * self.rate_per_s)
        at_s = rng.gammavariate(shape, scale_s)
        while at_s < duration_s:
            yield at_s
            at_s += rng.gammavariate(shape, scale_s)


@dataclass(frozen=True, slots=True)
class Ramp:
    """r(t) = a + b t with b = (end - a) / duration; its integral inverts in closed form."""

    start_per_s: float
    end_per_s: float

    def times_s(self, duration_s: float, rng: random.Random) -> Iterator[float]:
        slope = (self.end_per_s - self.start_per_s) / duration_s
        whole = (self.start_per_s + self.end_per_s) / 2 * duration_s
        passed = rng.expovariate(1)
        while passed < whole:
            root = sqrt(max(self.start_per_s**2 + 2 * slope * passed, 0.0))
            yield 2 * passed / (self.start_per_s + root)
            passed += rng.expovariate(1)


@dataclass(frozen=True, slots=True)
class Steps:
    """(rate, seconds) one after the other, again from the first after the last."""

    steps: tuple[tuple[float, float], ...]

    def times_s(self, duration_s: float, rng: random.Random) -> Iterator[float]:
        began_s = 0.0
        while began_s < duration_s:
            for rate_per_s, lasts_s in self.steps:
                ends_s = min(began_s + lasts_s, duration_s)
                at_s = began_s + _gap_s(rate_per_s, rng)
                while at_s < ends_s:
                    yield at_s
                    at_s += _gap_s(rate_per_s, rng)
                began_s += lasts_s


def _gap_s(rate_per_s: float, rng: random.Random) -> float:
    """Exponential, so that what is left of it at a step's end may be drawn anew."""
    return rng.expovariate(rate_per_s) if rate_per_s else float("inf")


def parse_arrivals(written: str) -> ArrivalProcess:
    """Raises BadSpecificationError."""
    name, plain, named = split(written)
    try:
        return _READERS[name](plain, named)
    except (KeyError, IndexError):
        raise BadSpecificationError(f"arrivals are {written!r}; write {_FORMS}") from None


def _poisson(plain: list[str], _named: dict[str, str]) -> ArrivalProcess:
    return GammaBursts(positive(plain[0], "the rate"))


def _constant(plain: list[str], _named: dict[str, str]) -> ArrivalProcess:
    return Constant(positive(plain[0], "the rate"))


def _gamma(plain: list[str], named: dict[str, str]) -> ArrivalProcess:
    return GammaBursts(positive(plain[0], "the rate"), positive(named["cv"], "cv"))


def _ramp(plain: list[str], _named: dict[str, str]) -> ArrivalProcess:
    start, _, end = plain[0].partition("-")
    return Ramp(positive(start, "the rate at the start"), positive(end, "the rate at the end"))


def _step(plain: list[str], _named: dict[str, str]) -> ArrivalProcess:
    steps = [_one_step(*part.partition("@")[::2]) for part in plain]
    if not any(rate_per_s for rate_per_s, _ in steps):
        raise BadSpecificationError("no step has a rate above 0")
    return Steps(tuple(steps))


def _one_step(rate: str, lasts: str) -> tuple[float, float]:
    lasts_s = duration_s(lasts, "how long a step lasts")
    if lasts_s <= 0:
        raise BadSpecificationError("a step lasts longer than 0 s")
    return (0.0 if rate.strip() == "0" else positive(rate, "the rate of a step")), lasts_s


_READERS: dict[str, Callable[[list[str], dict[str, str]], ArrivalProcess]] = {
    "poisson": _poisson,
    "constant": _constant,
    "gamma": _gamma,
    "ramp": _ramp,
    "step": _step,
}
