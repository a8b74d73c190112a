from __future__ import annotations

import random

import pytest

from proxy.admission.fairness import max_min
from proxy.admission.fairness.max_min import ADVANCE_S, Contender, MaxMin, Tenant


class Stand:
    """Contenders called by name, who all queue for one seat more as often as they are granted."""

    def __init__(self, **weights: float) -> None:
        self.fairness = MaxMin[str]()
        self.now_s = 0.0
        self.contenders = {
            name: Contender(Tenant[str](weight, priorities=1), name)
            for name, weight in weights.items()
        }
        for name in weights:
            self.join(name)

    def add(self, name: str, weight: float, used: float = 0.0) -> Contender[str]:
        """One more, who queues for a seat; `used` is what its tenant had before."""
        contender = self.contenders[name] = Contender(Tenant[str](weight, priorities=1), name)
        contender.tenant.used = used
        self.join(name)
        return contender

    def join(self, name: str, seats: int = 1) -> None:
        self.fairness.joined(self.contenders[name], seats)
        self.rank(name)

    def leave(self, name: str) -> None:
        contender = self.contenders[name]
        self.fairness.left(contender, contender.queued_seats)
        self.fairness.withdraw(contender)

    def rank(self, name: str) -> None:
        self.contenders[name].tenant.settle(self.now_s)
        self.fairness.rank(self.contenders[name])

    def change(self, name: str, seats: int) -> None:
        tenant = self.contenders[name].tenant
        tenant.settle(self.now_s)
        tenant.in_flight += seats
        if self.contenders[name].turn:
            self.rank(name)

    def grant(self, seats: int = 1) -> str:
        contender = self.fairness.next()
        assert contender is not None
        self.fairness.choose_again(contender)
        self.change(contender.queue, seats)
        self.fairness.granted(contender)
        return contender.queue

    def grants(self, count: int) -> str:
        return "".join(self.grant() for _ in range(count))

    @property
    def next(self) -> str | None:
        contender = self.fairness.next()
        return None if contender is None else contender.queue

    def longest(self, but_for: str = "") -> str | None:
        found = self.fairness.longest(self.contenders.get(but_for))
        return None if found is None else found.queue


# Whose turn it is


def test_with_nobody_competing_it_is_nobodys_turn() -> None:
    assert Stand().next is None
    stand = Stand(a=1)
    stand.leave("a")
    assert stand.next is None


def test_equals_take_turns_in_the_order_of_their_arrival() -> None:
    assert Stand(a=1, b=1, c=1).grants(6) == "abcabc"


def test_seats_go_in_proportion_to_the_weights() -> None:
    granted = Stand(a=1, b=2, c=4).grants(70)
    assert [granted.count(name) for name in "abc"] == [10, 20, 40]


def test_who_holds_fewer_seats_goes_first_whatever_the_requests() -> None:
    stand = Stand(a=1, b=1)
    assert stand.grant(seats=3) == "a"
    assert stand.grants(4) == "bbba"


def test_seats_given_back_put_their_tenant_forward() -> None:
    stand = Stand(a=1, b=1)
    stand.grants(4)
    stand.change("b", -1)
    assert stand.grant() == "b"


def test_seats_held_long_count_for_more_than_seats_held_briefly() -> None:
    stand = Stand(a=1, b=1)
    assert stand.grants(2) == "ab"
    stand.now_s = 10.0
    stand.change("b", -1)
    stand.now_s = 20.0
    stand.change("a", -1)
    assert stand.grant() == "b"  # ten seat-seconds against twenty


def test_the_choice_stands_until_it_is_carried_out() -> None:
    stand = Stand(a=1, b=1)
    stand.grants(2)
    assert stand.next == "a"
    stand.change("b", -1)
    assert stand.next == "a"  # or a wide request would never find its seats
    assert stand.grant() == "a"
    assert stand.grant() == "b"


def test_when_the_chosen_one_withdraws_it_is_the_turn_of_another() -> None:
    stand = Stand(a=1, b=1)
    assert stand.next == "a"
    stand.leave("a")
    assert stand.next == "b"


def test_who_withdraws_twice_or_never_competed_changes_nothing() -> None:
    stand = Stand(a=1, b=1)
    for _ in range(2):
        stand.fairness.withdraw(stand.contenders["a"])
    assert stand.fairness.competing == 1
    assert stand.next == "b"


def test_a_newcomer_is_level_with_those_who_were_there_and_saves_nothing_up() -> None:
    stand = Stand(a=1, b=1)
    stand.leave("b")
    stand.grants(4)
    stand.now_s = 10_000.0
    stand.grants(1)
    stand.join("b")
    assert stand.grants(6) == "bbbbba"  # level in seats, no compensation for 10,000 s


@pytest.mark.parametrize("weight", [0.5, 1.0, 4.0])
def test_nobody_owes_more_than_ten_minutes_of_one_seat(weight: float) -> None:
    stand = Stand(a=weight, b=weight)
    stand.change("a", 100)
    stand.now_s = 10_000.0
    stand.change("a", -100)  # a million seat-seconds
    stand.change("b", 1)
    stand.now_s += 600.0 - ADVANCE_S - 0.5
    stand.change("b", 0)
    assert stand.next == "b"
    stand.fairness.choose_again(stand.contenders["b"])
    stand.now_s += 1.0
    stand.change("b", 0)
    assert stand.grant() == "a"
    stand.add("c", weight)
    assert "c" in stand.grants(3), "nobody else pays for what a was forgiven"


def test_what_they_weigh_and_queue_for_is_that_of_those_who_compete() -> None:
    stand = Stand(a=1, b=2.5)
    stand.join("a", seats=3)
    fairness = stand.fairness
    assert (fairness.competing, fairness.competing_seats) == (2, 5)
    assert fairness.competing_weight == pytest.approx(3.5)
    fairness.withdraw(stand.contenders["a"])
    assert (fairness.competing, fairness.competing_seats) == (1, 1)
    fairness.left(stand.contenders["a"], 1)
    stand.rank("a")
    assert fairness.competing_seats == 4


def test_however_often_ranks_change_the_heaps_stay_as_small_as_the_contest() -> None:
    stand = Stand(a=1, b=1)
    for _ in range(1000):
        stand.rank("a")
        stand.join("b")
        stand.longest()
    sizes = len(stand.fairness._turns), len(stand.fairness._longest)
    assert max(sizes) < 100


def test_those_who_came_and_went_are_not_kept_for_the_day_on_which_somebody_asks() -> None:
    stand = Stand(a=1)
    for number in range(1000):
        name = str(number)
        stand.contenders[name] = Contender(Tenant[str](1.0, priorities=1), name)
        stand.join(name)
        stand.leave(name)
    assert len(stand.fairness._grown) < 100
    assert stand.longest() == "a"


# Who makes room


def test_the_most_queued_seats_per_weight_make_room() -> None:
    stand = Stand(a=1, b=4)
    stand.join("b", seats=2)
    stand.join("a")
    assert stand.longest() == "a"  # 2 against 3/4
    stand.join("b", seats=8)
    assert stand.longest() == "b"  # 11/4


def test_the_longest_is_found_again_after_it_has_shrunk() -> None:
    stand = Stand(a=1, b=1)
    stand.join("a", seats=5)
    stand.join("b", seats=2)
    assert stand.longest() == "a"
    stand.fairness.left(stand.contenders["a"], 4)
    assert stand.longest() == "b"
    stand.leave("b")
    assert stand.longest() == "a"
    stand.leave("a")
    assert stand.longest() is None


def test_one_may_be_passed_over_and_is_still_there_afterwards() -> None:
    stand = Stand(a=1, b=1)
    stand.join("a", seats=5)
    assert stand.longest(but_for="a") == "b"
    assert stand.longest() == "a"
    stand.leave("b")
    assert stand.longest(but_for="a") is None
    assert stand.longest() == "a"


def test_the_runner_up_is_next_when_the_chosen_one_does_not_compete() -> None:
    stand = Stand(a=1.0, b=1.0, c=1.0)
    for name, seats in (("a", 3), ("b", 1), ("c", 2)):
        stand.change(name, seats)
    assert stand.fairness.next() is stand.contenders["b"]
    assert stand.fairness.runner_up() is stand.contenders["c"]
    stand.change("b", 5)  # it stays chosen, though it ranks last now
    assert stand.fairness.runner_up() is stand.contenders["c"]
    stand.leave("c")
    assert stand.fairness.runner_up() is stand.contenders["a"]
    stand.leave("a")
    assert stand.fairness.runner_up() is None
    assert stand.fairness.next() is stand.contenders["b"]


def test_what_the_only_one_has_got_meanwhile_counts_when_another_comes() -> None:
    stand = Stand(a=1.0)
    assert stand.grants(5) == "aaaaa"
    stand.contenders["b"] = Contender(Tenant[str](1.0, priorities=1), "b")
    stand.join("b")
    assert stand.grants(5) == "bbbbb"
    stand.leave("b")
    stand.change("a", -5)
    stand.leave("a")
    stand.join("b")
    stand.join("a")
    assert stand.grants(5) == "aaaaa"


def rank_of(contender: Contender[str]) -> float:
    """K, by the formula at the top of the file."""
    tenant = contender.tenant
    held = tenant.in_flight / tenant.weight
    return tenant.used + contender.head_start + ADVANCE_S * held


def test_whoever_begins_to_compete_is_level_with_the_one_last_granted_whatever_it_weighs() -> None:
    stand = Stand(a=1.0)
    stand.contenders["a"].tenant.used = 500.0
    stand.grant()
    for weight, used in ((1.0, 0.0), (2.0, 0.0), (2.0, 499.5)):
        newcomer = Contender(Tenant[str](weight, priorities=1), "new")
        newcomer.tenant.used, newcomer.tenant.in_flight = used, 2
        stand.fairness.rank(newcomer)
        assert rank_of(newcomer) == max(500.0, used + 2 * ADVANCE_S / weight)
        stand.fairness.withdraw(newcomer)
        newcomer.tenant.in_flight = 0
        stand.fairness.rank(newcomer)
        assert rank_of(newcomer) == 500.0, "what it was given before counts"


def test_who_was_granted_without_having_waited_saves_nothing_up_for_others() -> None:
    stand = Stand(a=1.0, b=1.0)
    for name in "ab":
        stand.contenders[name].tenant.used = 500.0
        stand.rank(name)
    stand.grants(2)
    stand.fairness.granted(Contender(Tenant[str](1.0, priorities=1), "at once"))
    assert rank_of(stand.add("c", 1.0)) == 500.0


def test_who_gave_seats_back_goes_first_until_it_has_caught_up() -> None:
    stand = Stand(a=1.0, b=1.0)
    stand.change("a", 10)
    stand.contenders["b"].tenant.used = 299.0
    stand.rank("b")
    assert stand.grant() == "b"
    stand.change("a", -10)
    assert stand.grants(3) == "aaa"


def test_in_the_first_contest_counts_what_was_used_before_it() -> None:
    stand = Stand()
    stand.add("b", 1.0, used=0.5)
    stand.add("a", 1.0)
    assert stand.next == "a"


def test_no_rounding_is_left_over_when_nobody_competes() -> None:
    stand = Stand(a=0.1, b=0.2)
    assert stand.fairness.competing_weight == pytest.approx(0.3)
    stand.leave("a")
    assert stand.fairness.competing_weight == pytest.approx(0.2)
    stand.leave("b")
    assert stand.fairness.competing_weight == 0.0


def test_who_queues_without_competing_makes_room_until_it_has_left() -> None:
    stand = Stand()
    capped = Contender(Tenant[str](1.0, priorities=1), "capped")
    stand.fairness.joined(capped, 1)
    assert stand.fairness.queueing == 1
    assert stand.fairness.longest() is capped
    stand.fairness.left(capped, 1)
    assert stand.fairness.queueing == 0
    assert stand.fairness.longest() is None


def test_who_came_and_went_before_anybody_asked_makes_no_room() -> None:
    stand = Stand(a=1, b=1)
    stand.leave("b")
    assert stand.longest(but_for="a") is None
    stand.leave("a")
    assert stand.longest() is None


# Heaps that are swept now and then, and such as are swept all the time.
CROWDS = [(0, 64), (1, 64), (2, 0), (3, 0)]


def something_happens(stand: Stand, rng: random.Random) -> None:
    name = rng.choice(list(stand.contenders))
    contender = stand.contenders[name]
    match rng.randrange(6):
        case 0 | 1:
            stand.join(name, rng.randint(1, 9))
        case 2 if contender.queued_seats > 1:
            stand.fairness.left(contender, rng.randint(1, contender.queued_seats - 1))
        case 3 if contender.queued_seats:
            stand.leave(name)
        case 4 if contender.tenant.in_flight:
            stand.change(name, -1)
        case 5 if stand.next is not None:
            stand.grant(rng.randint(1, 3))


@pytest.mark.parametrize(("seed", "litter"), CROWDS)
def test_among_many_who_come_and_go_the_least_rank_is_next(
    seed: int, litter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(max_min, "_LITTER", litter)
    rng = random.Random(seed)
    stand = Stand(**{f"t{number}": rng.choice((0.5, 1.0, 3.0)) for number in range(12)})
    for _ in range(1500):
        stand.now_s += rng.random()
        something_happens(stand, rng)
        competing = [one for one in stand.contenders.values() if one.turn]
        weight = sum(one.tenant.weight for one in competing)
        assert stand.fairness.competing_weight == pytest.approx(weight)
        chosen, second = stand.fairness.next(), stand.fairness.runner_up()
        if second is not None:
            others = [rank_of(one) for one in competing if one is not chosen]
            assert rank_of(second) == pytest.approx(min(others))
        if chosen is not None:
            stand.fairness.choose_again(chosen)
            first = stand.fairness.next()
            assert first is not None
            assert rank_of(first) == pytest.approx(min(map(rank_of, competing)))


@pytest.mark.parametrize(("seed", "litter"), CROWDS)
def test_among_many_who_come_and_go_the_longest_makes_room(
    seed: int, litter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(max_min, "_LITTER", litter)
    rng = random.Random(seed)
    stand = Stand(**{f"t{number}": rng.choice((0.5, 1.0, 3.0)) for number in range(12)})
    for _ in range(1500):
        something_happens(stand, rng)
        queueing = [one for one in stand.contenders.values() if one.queued_seats]
        assert stand.fairness.queueing == len(queueing)
        if rng.random() < 0.5:
            longest = stand.fairness.longest()
            assert (longest is None) == (not queueing)
            if longest is not None:
                per_weight = [one.queued_seats / one.tenant.weight for one in queueing]
                assert longest.queued_seats / longest.tenant.weight == max(per_weight)
