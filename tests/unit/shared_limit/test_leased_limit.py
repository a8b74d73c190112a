from __future__ import annotations

from proxy.admission.snapshot import Demand
from proxy.shared_limit.leased_limit import LeasedLimit, awake_or_asleep
from proxy.shared_limit.store import LEASE_S, Granted
from tests.support.sharing_gateways import Clock


def granted(held: int, target: int | None = None, limit: int = 8) -> Granted:
    return Granted(
        held=held,
        target=held if target is None else target,
        limit=limit,
        members=("a", "b"),
        overdue={},
        in_grace=False,
    )


def leased(held: int, target: int | None = None) -> tuple[LeasedLimit, Clock]:
    clock = Clock()
    limit = LeasedLimit("a", 8, clock)
    limit.heard(granted(held, target), clock.now)
    return limit, clock


def test_there_is_no_seat_before_the_store_was_heard() -> None:
    limit = LeasedLimit("a", 8, Clock())
    assert (limit.seats, limit.held, limit.ceiling, limit.widest) == (0, 0, 8, 8)


def test_what_the_store_grants_may_be_used() -> None:
    limit, _ = leased(3)
    assert (limit.seats, limit.held, limit.leased) == (3, 3, 3)


def test_a_lease_that_is_not_renewed_is_used_no_more() -> None:
    limit, clock = leased(3)
    clock.now += LEASE_S + 0.001
    assert (limit.seats, limit.held, limit.leased) == (0, 0, 3)


def test_the_lease_counts_from_when_the_store_was_asked() -> None:
    clock = Clock()
    limit = LeasedLimit("a", 8, clock)
    asked_at = clock.now
    clock.now += 2
    limit.heard(granted(3), asked_at)
    clock.now += 1.001
    assert limit.seats == 0


def test_an_answer_that_slept_for_longer_than_a_lease_says_nothing() -> None:
    clock = Clock()
    limit = LeasedLimit("a", 8, clock)
    asked_at = clock.now
    clock.now += LEASE_S + 1
    assert limit.heard(granted(3), asked_at) is False
    assert (limit.seats, limit.leased) == (0, 0)


def test_as_long_as_the_store_is_asked_in_vain_the_lease_stays_good() -> None:
    limit, clock = leased(3)
    for _ in range(100):
        clock.now += 1
        limit.unheard()
    assert limit.seats == 3


def test_who_slept_while_the_store_was_away_has_to_hear_from_it_first() -> None:
    limit, clock = leased(3)
    clock.now += LEASE_S + 1
    limit.unheard()
    assert limit.seats == 0
    limit.heard(granted(2), clock.now)
    assert limit.seats == 2


def test_idle_seats_above_the_target_are_given_back_before_the_store_is_told() -> None:
    limit, _ = leased(6, target=4)
    assert limit.renewal(1, Demand(3, 0, 0, 0.0), {}).keep == 4
    assert limit.seats == 4


def test_seats_in_use_are_kept_whatever_the_target() -> None:
    limit, _ = leased(6, target=1)
    assert limit.renewal(1, Demand(5, 0, 0, 0.0), {}).keep == 5


def test_above_its_target_a_gateway_grants_nothing_new_and_still_holds_what_runs() -> None:
    limit, _ = leased(6, target=4)
    assert (limit.seats, limit.held) == (4, 6)


def test_of_a_lease_that_is_overdue_only_what_runs_is_kept() -> None:
    limit, clock = leased(6)
    clock.now += LEASE_S + 1
    assert limit.renewal(1, Demand(2, 5, 1, 0.0), {}).keep == 2


def test_a_renewal_says_what_is_needed() -> None:
    limit, _ = leased(4)
    said = limit.renewal(1, Demand(4, 9, 12, 1.5), {"b": 3})
    assert (said.want, said.widest, said.waited_ms, said.limit) == (8, 8, 1500, 8)
    assert (said.known, said.gone, said.leaves) == (("a", "b"), {"b": 3}, False)


def test_more_seats_are_news_and_fewer_are_not() -> None:
    limit, clock = leased(4)
    assert limit.heard(granted(5), clock.now) is True
    assert limit.heard(granted(5), clock.now) is False
    assert limit.heard(granted(2), clock.now) is False


def test_the_limit_of_all_is_the_ceiling() -> None:
    limit, clock = leased(4)
    limit.heard(granted(4, limit=6), clock.now)
    assert (limit.ceiling, limit.widest) == (6, 6)


def test_it_is_urgent_when_somebody_waits_and_the_lease_is_used_up() -> None:
    limit, _ = leased(4)
    assert limit.is_urgent(Demand(4, 1, 1, 0.0))
    assert not limit.is_urgent(Demand(4, 0, 0, 0.0))
    assert not limit.is_urgent(Demand(2, 2, 1, 0.0))


def test_it_is_urgent_while_seats_are_ours_that_others_have_to_give_back() -> None:
    limit, clock = leased(2)
    limit.renewal(1, Demand(2, 9, 1, 0.0), {})
    limit.heard(granted(2, target=4), clock.now)
    assert limit.is_urgent(Demand(2, 9, 1, 0.0))


def test_who_was_to_have_less_than_was_said_does_not_ask_again_for_more() -> None:
    limit, clock = leased(4)
    limit.renewal(1, Demand(4, 2, 1, 0.0), {})
    limit.heard(granted(4), clock.now)
    assert not limit.is_urgent(Demand(4, 3, 1, 0.0))


def test_idle_seats_above_the_target_are_urgent() -> None:
    limit, clock = leased(4)
    limit.renewal(1, Demand(4, 2, 1, 0.0), {})
    limit.heard(granted(4, target=3), clock.now)
    assert limit.is_urgent(Demand(3, 2, 1, 0.0))
    assert not limit.is_urgent(Demand(4, 2, 1, 0.0))


def test_idle_seats_are_urgent_as_long_as_others_wait_for_them() -> None:
    limit, clock = leased(4)
    limit.renewal(1, Demand(3, 0, 0, 0.0), {})
    limit.heard(granted(4, target=3), clock.now)
    assert limit.is_urgent(Demand(3, 0, 0, 0.0))
    assert not limit.is_urgent(Demand(4, 0, 0, 0.0))
    limit.renewal(2, Demand(3, 0, 0, 0.0), {})
    limit.heard(granted(3, target=3), clock.now)
    assert not limit.is_urgent(Demand(3, 0, 0, 0.0))
    assert limit.is_urgent(Demand(2, 0, 0, 0.0))


def test_seats_in_reserve_are_not_urgent() -> None:
    limit, clock = leased(4)
    limit.renewal(1, Demand(3, 0, 0, 0.0), {})
    limit.heard(granted(4, target=4), clock.now)
    assert not limit.is_urgent(Demand(1, 0, 0, 0.0))


def test_its_clock_goes_on() -> None:
    assert awake_or_asleep() <= awake_or_asleep()


def test_less_is_in_force_at_once_and_told_to_the_store() -> None:
    limit, _ = leased(6)
    limit.set_most(4)
    assert (limit.seats, limit.ceiling) == (4, 4)
    assert limit.held == 6  # until the store has heard of it, nobody else may have them
    renewal = limit.renewal(1, Demand(taken=5, waiting=3, widest=1, waited_s=0.0), {})
    assert (renewal.limit, renewal.keep, renewal.want) == (4, 5, 4)


def test_more_is_there_when_the_store_says_so() -> None:
    limit, clock = leased(6)
    limit.set_most(16)
    assert (limit.seats, limit.ceiling) == (6, 8)
    limit.heard(granted(10, limit=16), clock.now)
    assert (limit.seats, limit.ceiling) == (10, 16)
