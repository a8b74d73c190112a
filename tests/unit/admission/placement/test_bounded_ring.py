from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.account import Account
from proxy.admission.placement import bounded_ring
from proxy.admission.placement.bounded_ring import BoundedRing, ring_position
from proxy.admission.token_budget import TokenBudgets
from tests.support.admission import MovableLimit

if TYPE_CHECKING:
    import pytest

KEYS = [ring_position(b"prompt %d" % number) for number in range(2000)]


def engines(count: int, seats: int = 100) -> list[Account]:
    return [Account(f"http://engine-{number}:8000", MovableLimit(seats)) for number in range(count)]


def ring() -> BoundedRing:
    return BoundedRing(random.Random(3))


def homes(placement: BoundedRing, each: list[Account]) -> dict[int, str]:
    """Where each key goes while nothing is taken."""
    found = {}
    for key in KEYS:
        account = placement.choose(each, 1, affinity=key)
        assert account is not None
        found[key] = account.name
    return found


def test_a_key_has_the_same_home_in_every_process() -> None:
    assert ring_position(b"a session") == 14880836037093040700
    assert homes(ring(), engines(5)) == homes(ring(), engines(5))


def test_keys_are_spread_over_all() -> None:
    counts = Counter(homes(ring(), engines(5)).values())
    assert len(counts) == 5
    assert max(counts.values()) < 2 * len(KEYS) / 5


def test_where_they_stand_in_the_list_makes_no_difference() -> None:
    each = engines(5)
    assert homes(ring(), each) == homes(ring(), each[::-1])


def test_only_the_keys_of_one_that_goes_move() -> None:
    placement, each = ring(), engines(5)
    before = homes(placement, each)
    gone = each[2].name
    after = homes(placement, [account for account in each if account.name != gone])
    moved = {key for key in KEYS if after[key] != before[key]}
    assert moved == {key for key in KEYS if before[key] == gone}
    assert len({after[key] for key in moved}) == 4


def test_who_comes_back_gets_its_keys_back() -> None:
    placement, each = ring(), engines(3)
    before = homes(placement, each)
    homes(placement, each[:2])
    assert homes(placement, list(each)) == before


def test_a_key_that_everybody_sends_overflows_to_the_next_on_the_ring() -> None:
    placement, each = ring(), engines(4)
    home = homes(placement, each)[KEYS[0]]
    first = placement.choose(each, 1, affinity=KEYS[0])
    assert first is not None
    assert first.name == home
    for _ in range(100):
        account = placement.choose(each, 1, affinity=KEYS[0])
        assert account is not None
        account.taken += 1
    carried = sorted(account.taken for account in each)
    assert carried[-1] == math.ceil(1.25 * 100 / 4) == first.taken
    assert carried[1] >= 31, "the last on the ring gets what is left"


def test_what_overflows_goes_where_its_keys_will_go_when_their_home_goes() -> None:
    placement, each = ring(), engines(6)
    for key, home in list(homes(placement, each).items())[:50]:
        full = next(account for account in each if account.name == home)
        full.taken = 100
        overflow = placement.choose(each, 1, affinity=key)
        full.taken = 0
        assert ring().choose([one for one in each if one is not full], 1, affinity=key) is overflow


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from(KEYS),
)
def test_nobody_is_chosen_without_room_and_somebody_is_if_there_is_any(
    loads: list[tuple[int, int]], width: int, key: int
) -> None:
    each = engines(len(loads))
    for account, (taken, seats) in zip(each, loads, strict=True):
        account.limit = MovableLimit(seats)
        account.taken = taken
    if not any(seats for _, seats in loads):
        return
    account = ring().choose(each, width, affinity=key)
    fitting = [one for one in each if one.taken + width <= one.limit.seats]
    assert (account in fitting) if fitting else (account is None)


def test_an_engine_carries_in_proportion_to_its_seats() -> None:
    placement = ring()
    each = [Account("small", MovableLimit(10)), Account("large", MovableLimit(90))]
    for key in KEYS[:80]:
        account = placement.choose(each, 1, affinity=key)
        assert account is not None
        account.taken += 1
    assert each[0].taken <= math.ceil(1.25 * 80 * 10 / 100)


def test_one_without_room_for_the_tokens_is_passed_over() -> None:
    placement, each = ring(), engines(2)
    key = next(key for key, name in homes(placement, each).items() if name == each[0].name)
    each[0].budgets = TokenBudgets(kv_limit=10)
    each[0].budgets.kv.taken = 5
    assert placement.choose(each, 1, 0, 6, affinity=key) is each[1]


def test_who_says_nothing_of_tokens_stays_at_home_though_none_are_left_there() -> None:
    placement, each = ring(), engines(2)
    key = next(key for key, name in homes(placement, each).items() if name == each[0].name)
    for full in (TokenBudgets(prefill_limit=9), TokenBudgets(kv_limit=9)):
        each[0].budgets = full
        full.prefill.taken = full.kv.taken = 9
        assert placement.choose(each, 1, affinity=key) is each[0]


def test_a_request_without_a_key_goes_where_most_is_free() -> None:
    placement, each = ring(), engines(3)
    each[0].taken = each[2].taken = 50
    assert placement.choose(each, 1) is each[1]


def test_the_points_of_an_engine_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[str] = []
    usual = bounded_ring._points
    monkeypatch.setattr(
        bounded_ring, "_points", lambda name: worked_out.append(name) or usual(name)
    )
    placement, each = ring(), engines(3)
    for members in (each, each[:2], [*each[:2]], list(each)):
        placement.choose(members, 1, affinity=KEYS[0])
    assert sorted(worked_out) == sorted([one.name for one in each] + [each[2].name])
