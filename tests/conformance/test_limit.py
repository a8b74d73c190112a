"""What every Limit promises, whatever moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.ledger import Ledger
from proxy.admission.limits.aimd import AimdLimit
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.limits.slow_start import SlowStart
from proxy.admission.limits.tightest import TightestLimit
from proxy.admission.saturation import Saturation

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.account import Claim
    from proxy.admission.ports import Limit


@dataclass(frozen=True)
class Happening:
    """A second in a limit's life: how full the engine is, how many run, whether it came back."""

    saturation: Saturation
    in_flight: int
    recovered: bool


@dataclass(frozen=True)
class Kind:
    """A limit with some maximum, and how it hears of what happens."""

    limit: Limit
    hear: Callable[[Happening, float], object]


def fixed(maximum: int) -> Kind:
    return Kind(FixedLimit(maximum), lambda _happening, _now: None)


def adaptive(maximum: int) -> Kind:
    limit = AimdLimit(maximum)
    return Kind(limit, lambda it, now: limit.observe(it.saturation, it.in_flight, now))


def slow_start(maximum: int) -> Kind:
    limit = SlowStart(FixedLimit(maximum))
    return Kind(limit, lambda it, now: limit.begin(now) if it.recovered else limit.advance(now))


def tightest(maximum: int) -> Kind:
    parts = (fixed(maximum), adaptive(maximum + 5), slow_start(maximum + 3))
    limit = TightestLimit(*(part.limit for part in parts))
    return Kind(limit, lambda it, now: [part.hear(it, now) for part in parts])


def slowly_to_an_adaptive_one(maximum: int) -> Kind:
    behind = adaptive(maximum)
    limit = SlowStart(behind.limit)

    def hear(it: Happening, now: float) -> None:
        behind.hear(it, now)
        if it.recovered:
            limit.begin(now)
        limit.advance(now)

    return Kind(limit, hear)


KINDS = pytest.mark.parametrize(
    "make", [fixed, adaptive, slow_start, tightest, slowly_to_an_adaptive_one]
)
LIVES = st.lists(
    st.builds(
        Happening,
        saturation=st.builds(
            Saturation,
            waiting=st.none() | st.integers(0, 300),
            kv_cache_usage=st.none() | st.floats(0, 1),
            preemptions_per_s=st.none() | st.floats(0, 100),
            tpot_s=st.none() | st.floats(0.001, 1),
        ),
        in_flight=st.integers(0, 300),
        recovered=st.booleans(),
    ),
    max_size=40,
)


@KINDS
@given(maximum=st.integers(1, 200), life=LIVES)
def test_seats_are_a_whole_number_from_one_to_the_maximum(
    make: Callable[[int], Kind], maximum: int, life: list[Happening]
) -> None:
    kind = make(maximum)
    for second, happening in enumerate(life):
        kind.hear(happening, float(second))
        assert type(kind.limit.seats) is int
        assert kind.limit.seats <= kind.limit.ceiling == maximum
        assert 1 <= kind.limit.seats <= maximum


@KINDS
@given(maximum=st.integers(1, 200), life=LIVES)
def test_looking_at_it_does_not_move_it(
    make: Callable[[int], Kind], maximum: int, life: list[Happening]
) -> None:
    watched, unwatched = make(maximum), make(maximum)
    for second, happening in enumerate(life):
        watched.hear(happening, float(second))
        unwatched.hear(happening, float(second))
        assert watched.limit.seats == watched.limit.seats
    assert watched.limit.seats == unwatched.limit.seats


@KINDS
def test_with_nothing_to_complain_of_it_comes_to_its_maximum_and_stays(
    make: Callable[[int], Kind],
) -> None:
    kind = make(40)
    trouble = Happening(Saturation(waiting=500), 40, recovered=True)
    for second in range(50):
        kind.hear(trouble, float(second))
    for second in range(50, 250):
        calm = Happening(Saturation(waiting=0), kind.limit.seats, recovered=False)
        kind.hear(calm, float(second))
    assert kind.limit.seats == 40


@KINDS
@given(maximum=st.integers(1, 20), life=LIVES)
def test_the_ledger_takes_no_more_than_it_says_at_that_moment(
    make: Callable[[int], Kind], maximum: int, life: list[Happening]
) -> None:
    kind = make(maximum)
    ledger = Ledger({"engine": kind.limit})
    claims: list[Claim] = []
    for second, happening in enumerate(life):
        kind.hear(happening, float(second))
        before = ledger.usable_taken
        while (claim := ledger.take(1)) is not None:
            claims.append(claim)
        assert ledger.usable_taken == max(before, kind.limit.seats)
        for _ in range(len(claims) // 2):
            ledger.give_back(claims.pop())
