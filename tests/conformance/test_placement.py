"""What every placement promises: room for the request, if there is any, and nothing taken by it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.account import Account
from proxy.admission.placement.bounded_ring import BoundedRing
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.token_budget import TokenBudgets
from tests.support.admission import MovableLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.ports import Placement

PLACEMENTS = {
    "roomiest": lambda: Roomiest(random.Random(5)),
    "bounded ring": lambda: BoundedRing(random.Random(5)),
}
LOADS = st.lists(
    st.tuples(
        st.integers(0, 30),  # seats taken
        st.integers(0, 20),  # seats
        st.integers(0, 99),  # KV tokens taken
        st.none() | st.integers(1, 99),  # and their limit
    ),
    max_size=6,
)
each_placement = pytest.mark.parametrize("new", PLACEMENTS.values(), ids=PLACEMENTS)


def accounts(loads: list[tuple[int, int, int, int | None]]) -> list[Account]:
    made = []
    for number, (taken, seats, kv_taken, kv_limit) in enumerate(loads):
        account = Account(f"e{number}", MovableLimit(seats), TokenBudgets(kv_limit=kv_limit))
        account.taken = taken
        account.budgets.kv.taken = kv_taken
        made.append(account)
    return made


@each_placement
@given(
    loads=LOADS,
    width=st.integers(1, 9),
    kv_tokens=st.integers(0, 120),
    affinity=st.none() | st.integers(0, 2**64 - 1),
)
def test_it_chooses_one_with_room_if_there_is_one(
    new: Callable[[], Placement],
    loads: list[tuple[int, int, int, int | None]],
    width: int,
    kv_tokens: int,
    affinity: int | None,
) -> None:
    given = accounts(loads)
    fitting = [
        one
        for one in given
        if one.taken + width <= one.limit.seats and one.has_tokens(0, kv_tokens)
    ]
    chosen = new().choose(given, width, 0, kv_tokens, affinity)
    assert (chosen in fitting) if fitting else (chosen is None)
    assert [one.taken for one in given] == [taken for taken, *_ in loads]


@each_placement
def test_it_goes_by_what_the_list_is_now(new: Callable[[], Placement]) -> None:
    placement, both = new(), accounts([(0, 5, 0, None), (0, 5, 0, None)])
    assert placement.choose(both, 1, affinity=1) in both
    for one in both:
        assert placement.choose([one], 1, affinity=1) is one
    assert placement.choose([], 1, affinity=1) is None
