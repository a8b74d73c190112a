from __future__ import annotations

import pytest

from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.limits.tightest import TightestLimit
from tests.support.admission import MovableLimit


def test_the_smallest_binds() -> None:
    assert TightestLimit(FixedLimit(7), FixedLimit(3), FixedLimit(5)).seats == 3


def test_it_follows_whichever_becomes_the_smallest() -> None:
    first, second = MovableLimit(7), MovableLimit(9)
    limit = TightestLimit(first, second)
    assert limit.seats == 7
    second.seats = 2
    assert limit.seats == 2
    first.seats = 0
    assert limit.seats == 0


def test_the_smallest_of_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="none"):
        TightestLimit()


def test_what_is_widest_and_what_is_held_are_those_of_the_smallest_too() -> None:
    lease = MovableLimit(5, ceiling=32, shared=True)
    limit = TightestLimit(lease, FixedLimit(20))
    assert (limit.seats, limit.ceiling, limit.widest, limit.held) == (5, 20, 20, 5)
