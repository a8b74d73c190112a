"""What the product's discipline does beyond what every discipline does."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from proxy.admission.disciplines.priority import REMEMBERED_TENANTS, PriorityDiscipline
from proxy.admission.request import Priority
from proxy.admission.snapshot import TenantSnapshot
from tests.support.queued import QueuedStub

HIGH, NORMAL, LOW = Priority


class Queue:
    """A discipline on a clock that the test moves; waiters are called by name or by tenant."""

    def __init__(
        self,
        weights: dict[str, float] | None = None,
        cap: int | None = None,
        trickle_share: float = 0.05,
    ) -> None:
        self.now_s = 0.0
        self.discipline = PriorityDiscipline[QueuedStub](
            lambda: self.now_s, weights, cap, trickle_share
        )

    def join(
        self, tenant: str, priority: Priority = NORMAL, width: int = 1, name: str = ""
    ) -> QueuedStub:
        waiter = QueuedStub(name or tenant, tenant=tenant, priority=priority, width=width)
        self.discipline.add(waiter)
        return waiter

    def grant(self) -> QueuedStub:
        head = self.discipline.head()
        assert head is not None
        self.discipline.remove(head)
        self.discipline.took(head.request, head.width)
        return head

    def granted(self, count: int) -> str:
        return "".join(self.grant().name for _ in range(count))

    def give_back(self, waiter: QueuedStub) -> None:
        self.discipline.gave_back(waiter.request, waiter.width)

    def run(self, tenant: str, priority: Priority = NORMAL, width: int = 1) -> QueuedStub:
        """Somebody who did not have to wait."""
        runner = QueuedStub(tenant, tenant=tenant, priority=priority, width=width)
        self.discipline.took(runner.request, width)
        return runner


def a_request(tenant: str, priority: Priority = NORMAL, width: int = 1) -> QueuedStub:
    return QueuedStub(tenant, tenant=tenant, priority=priority, width=width)


# Order


def test_a_higher_priority_goes_first() -> None:
    queue = Queue()
    for name, priority in (("l", LOW), ("n", NORMAL), ("h", HIGH)):
        queue.join(name, priority)
    assert queue.granted(3) == "hnl"


def test_inside_a_tenant_the_order_is_that_of_arrival() -> None:
    queue = Queue()
    for name in "123":
        queue.join("t", name=name)
    assert queue.granted(3) == "123"


def test_inside_a_priority_the_tenant_that_holds_fewest_seats_per_weight_goes_first() -> None:
    queue = Queue(weights={"a": 2.0})
    queue.run("a", width=3)
    queue.run("b", width=3)
    for tenant in "aabb":
        queue.join(tenant)
    assert queue.granted(4) == "aabb"


def test_seats_held_in_another_priority_count() -> None:
    queue = Queue()
    queue.run("a", HIGH)
    queue.join("a")
    queue.join("b")
    assert queue.granted(2) == "ba"


def test_a_flood_of_one_tenant_does_not_keep_another_waiting() -> None:
    queue = Queue()
    for _ in range(1000):
        queue.join("flood")
    queue.granted(8)
    queue.join("b")
    assert queue.grant().name == "b"


def test_weights_are_not_rounded_away_where_seats_are_fewer_than_tenants() -> None:
    queue = Queue(weights={"a": 10.0})
    for name in ["a", *map(str, range(20))]:
        queue.join(name)
    running = []
    grants = Counter[str]()
    for second in range(3000):
        queue.now_s = float(second)
        if second >= 7:
            queue.give_back(running.pop(0))
        running.append(queue.grant())
        queue.join(running[-1].name)  # of each one waits at all times, never two
        grants[running[-1].name] += 1
    assert grants["a"] / grants.total() == pytest.approx(10 / 30, rel=0.05)


def test_the_head_stays_while_its_seats_are_collected() -> None:
    queue = Queue()
    small = [queue.run("b") for _ in range(4)]
    wide = queue.join("a", width=4)
    queue.join("b")
    assert queue.discipline.head() is wide
    for runner in small:
        queue.give_back(runner)
        assert queue.discipline.head() is wide


def test_time_in_which_nobody_waits_does_not_count() -> None:
    queue = Queue()
    queue.run("a")
    queue.now_s = 10_000.0
    queue.run("b")
    queue.join("a")
    queue.join("b")
    assert queue.granted(2) == "ab"


def test_between_two_contests_no_time_passes_for_those_who_hold_seats() -> None:
    queue = Queue()
    queue.run("a")
    queue.now_s = 10_000.0
    queue.join("x")
    queue.run("b")
    for tenant in "ab":
        queue.join(tenant)
    assert queue.granted(3) == "xab"


def test_what_was_held_in_one_contest_counts_in_the_next() -> None:
    queue = Queue()
    queue.run("a")
    queue.now_s = 50.0
    other = queue.join("x")
    two = queue.run("b", width=2)
    others = queue.run("c", width=2)
    queue.now_s = 80.0
    queue.give_back(others)  # 60 seat-seconds for c
    queue.now_s = 100.0
    queue.give_back(two)  # 100 for b, and 50 for a, which holds its seat on
    queue.discipline.remove(other)
    queue.now_s = 1000.0
    for tenant in "xbac":
        queue.join(tenant)
    assert queue.granted(4) == "xcab"


def test_who_has_held_a_seat_for_longer_while_others_waited_goes_later() -> None:
    queue = Queue()
    queue.join("x")
    queue.run("a")
    queue.now_s = 90.0
    queue.run("b")
    queue.now_s = 100.0
    for tenant in "ab":
        queue.join(tenant)
    assert queue.granted(3) == "xba"


def test_what_was_granted_while_nobody_waited_sets_nobody_back() -> None:
    queue = Queue()
    running = [queue.run(tenant) for tenant in "ad"]
    other = queue.join("x")
    queue.now_s = 50.0
    queue.give_back(running[1])
    queue.now_s = 100.0
    queue.discipline.remove(other)
    queue.run("a")
    for tenant in "xdc":
        queue.join(tenant)
    assert queue.granted(3) == "xcd"


def test_who_comes_again_does_not_lose_its_place_among_equals() -> None:
    queue = Queue()
    for tenant in "aba":
        queue.join(tenant)
    assert queue.granted(2) == "ab"


def test_whose_first_one_leaves_does_not_lose_its_place_among_equals() -> None:
    queue = Queue()
    first = queue.join("a")
    for tenant in "ab":
        queue.join(tenant)
    queue.discipline.remove(first)
    assert queue.granted(2) == "ab"


def test_the_head_stays_when_one_behind_it_leaves() -> None:
    queue = Queue()
    queue.run("a")
    wide = queue.join("a", width=4)
    assert queue.discipline.head() is wide
    behind = queue.join("a")
    queue.join("b")
    queue.discipline.remove(behind)
    assert queue.discipline.head() is wide


# Caps


def test_below_a_cap_too_whoever_held_a_seat_for_longer_goes_later() -> None:
    queue = Queue(cap=3)
    queue.join("x")
    queue.run("a")
    first = queue.join("a")
    queue.join("a")
    queue.now_s = 90.0
    queue.run("b")
    queue.now_s = 95.0
    queue.join("b")
    queue.now_s = 100.0
    queue.discipline.remove(first)
    assert queue.granted(3) == "xba"


def test_a_tenant_at_its_cap_is_passed_over_and_stays_in_the_queue() -> None:
    queue = Queue(cap=2)
    runner = queue.run("a", width=2)
    queue.join("a")
    assert queue.discipline.head() is None
    assert len(queue.discipline) == 1
    b = queue.join("b")
    assert queue.discipline.head() is b
    queue.give_back(runner)
    assert queue.granted(2) == "ba"  # b was chosen already


def test_a_cap_counts_seats_over_all_priorities() -> None:
    queue = Queue(cap=2)
    queue.run("a", HIGH, width=2)
    queue.join("a", LOW)
    assert queue.discipline.head() is None


def test_what_runs_in_one_priority_takes_the_turn_from_the_same_tenant_in_another() -> None:
    queue = Queue(cap=1)
    low = queue.join("a", LOW)
    assert queue.discipline.head() is low
    queue.run("a", HIGH)
    assert queue.discipline.head() is None


def test_a_request_wider_than_the_cap_runs_when_its_tenant_holds_nothing() -> None:
    queue = Queue(cap=2)
    runner = queue.run("a")
    wide = queue.join("a", width=5)
    assert queue.discipline.head() is None
    queue.give_back(runner)
    assert queue.discipline.head() is wide


def test_when_a_narrower_one_comes_first_in_its_line_its_tenant_competes_again() -> None:
    queue = Queue(cap=2)
    queue.run("a")
    wide = queue.join("a", width=2)
    narrow = queue.join("a")
    assert queue.discipline.head() is None
    queue.discipline.remove(wide)
    assert queue.discipline.head() is narrow


def test_a_newcomer_does_not_pass_a_wider_one_of_its_tenant_that_waits_below_the_cap() -> None:
    queue = Queue(cap=2)
    queue.run("a")
    queue.join("a", width=2)
    assert not queue.discipline.may_run(a_request("a").request)
    assert queue.discipline.may_run(a_request("b").request)


def test_over_cap_says_whether_it_is_the_cap_that_stops_a_request() -> None:
    queue = Queue(cap=2)
    assert not queue.discipline.over_cap(a_request("a", width=9).request)
    queue.run("a")
    assert not queue.discipline.over_cap(a_request("a").request)
    assert queue.discipline.over_cap(a_request("a", width=2).request)
    assert not queue.discipline.may_run(a_request("a", width=2).request)


def test_time_at_the_cap_is_not_saved_up() -> None:
    queue = Queue(cap=1)
    for tenant in "ab":
        queue.run(tenant)
        queue.join(tenant)
    queue.now_s = 1000.0
    other = queue.join("c")
    queue.grant()
    queue.join("c")
    queue.give_back(other)
    assert queue.grant().name == "c"


# The trickle


def test_nobody_is_behind_a_lower_priority_whose_turn_it_was_and_that_has_left() -> None:
    queue = Queue(cap=1, trickle_share=0.5)
    queue.run("x")
    queue.join("x")
    low = queue.join("l", LOW)
    queue.run("h", HIGH)
    assert not queue.discipline.may_run(a_request("a").request)
    queue.discipline.remove(low)
    assert queue.discipline.may_run(a_request("a").request)


def test_one_seat_in_twenty_goes_to_a_lower_priority_that_waits_too() -> None:
    queue = Queue()
    for _ in range(1000):
        queue.join("h", HIGH)
        queue.join("l", LOW)
    order = queue.granted(400)
    assert order.count("l") == 20
    assert order[:20] == "h" * 19 + "l"


def test_no_priority_is_shut_out_by_one_above_it() -> None:
    queue = Queue()
    for _ in range(1000):
        for name, priority in (("h", HIGH), ("n", NORMAL), ("l", LOW)):
            queue.join(name, priority)
    shares = Counter(queue.granted(1000))
    assert shares["l"] == pytest.approx(50, abs=1)
    assert shares["n"] == pytest.approx(48, abs=2)  # one in twenty of what the trickle leaves


def test_the_trickle_is_counted_in_seats() -> None:
    queue = Queue(trickle_share=0.2)
    for _ in range(500):
        queue.join("h", HIGH)
        queue.join("l", LOW, width=4)
    seats = Counter[str]()
    for _ in range(300):
        granted = queue.grant()
        seats[granted.name] += granted.width
    assert seats["l"] / seats.total() == pytest.approx(0.2, rel=0.05)


def test_what_is_granted_while_nobody_lower_waits_is_not_saved_up() -> None:
    queue = Queue()
    for _ in range(100):
        queue.join("h", HIGH)
    queue.granted(50)
    queue.join("l", LOW)
    assert queue.granted(20) == "h" * 19 + "l"


def test_a_low_request_that_runs_when_nobody_else_waits_does_not_pay_for_it() -> None:
    queue = Queue()
    for _ in range(50):
        queue.join("l", LOW)
    queue.granted(40)
    for _ in range(30):
        queue.join("h", HIGH)
    assert queue.granted(20) == "h" * 19 + "l"


def test_a_newcomer_does_not_pass_a_lower_priority_whose_turn_it_is() -> None:
    queue = Queue()
    queue.join("l", LOW, width=8)
    for _ in range(19):
        assert queue.discipline.may_run(a_request("h", HIGH).request)
        queue.run("h", HIGH)
    assert not queue.discipline.may_run(a_request("h", HIGH).request)


def test_without_a_trickle_a_lower_priority_waits_for_the_last_of_the_higher() -> None:
    queue = Queue(trickle_share=0)
    queue.join("l", LOW)
    for _ in range(200):
        queue.join("h", HIGH)
    assert queue.granted(201) == "h" * 200 + "l"


# Who makes room


def test_the_newest_of_the_lowest_priority_makes_room_for_a_higher() -> None:
    queue = Queue()
    queue.join("n", NORMAL)
    queue.join("l", LOW)
    newest = queue.join("k", LOW)
    assert queue.discipline.yields_to(a_request("h", HIGH).request) is newest
    assert queue.discipline.yields_to(a_request("n", NORMAL).request) is newest


def test_a_lower_newcomer_finds_no_room_among_higher_ones() -> None:
    queue = Queue()
    for _ in range(9):
        queue.join("h", HIGH)
    assert queue.discipline.yields_to(a_request("l", LOW).request) is None


def test_who_is_next_by_the_trickle_does_not_make_room() -> None:
    queue = Queue()
    low = queue.join("l", LOW)
    for _ in range(20):
        queue.join("h", HIGH)
    queue.granted(19)
    assert queue.discipline.head() is low
    assert queue.discipline.yields_to(a_request("g", HIGH).request) is None


def test_the_tenant_with_most_queued_seats_per_weight_makes_room_for_one_with_fewer() -> None:
    queue = Queue(weights={"a": 3.0})
    for _ in range(5):
        queue.join("a")
    queue.join("b", width=2)
    newest = queue.join("b")
    assert queue.discipline.yields_to(a_request("c").request) is newest
    assert queue.discipline.yields_to(a_request("a", width=3).request) is newest


def test_a_newcomer_whose_tenant_would_queue_for_as_much_finds_no_room() -> None:
    queue = Queue()
    for tenant in "aabb":
        queue.join(tenant)
    assert queue.discipline.yields_to(a_request("a").request) is None
    assert queue.discipline.yields_to(a_request("c", width=2).request) is None


def test_a_heavy_tenant_may_queue_for_more_before_it_makes_room() -> None:
    queue = Queue(weights={"a": 3.0})
    for _ in range(5):
        queue.join("a")
    assert queue.discipline.yields_to(a_request("c", width=2).request) is None
    assert queue.discipline.yields_to(a_request("c").request) is not None


@pytest.mark.parametrize("has_waited", [False, True])
def test_the_only_tenant_that_waits_makes_room_for_another(has_waited: bool) -> None:
    queue = Queue()
    if has_waited:
        queue.discipline.remove(queue.join("b"))
    queue.join("a")
    newest = queue.join("a")
    assert queue.discipline.yields_to(a_request("b").request) is newest
    assert queue.discipline.yields_to(a_request("a").request) is None


def test_those_behind_the_one_that_is_next_make_room_as_others_do() -> None:
    queue = Queue()
    for tenant in "aab":
        newest = queue.join(tenant)
    assert queue.discipline.head() is not None
    newest = queue.join("a")
    assert queue.discipline.yields_to(a_request("c").request) is newest


def test_a_wide_request_that_is_next_does_not_make_room() -> None:
    queue = Queue()
    wide = queue.join("a", width=8)
    assert queue.discipline.head() is wide
    queue.join("b")
    newest = queue.join("b")
    assert queue.discipline.yields_to(a_request("c").request) is newest


def test_nobody_makes_room_for_a_request_that_its_tenants_cap_keeps_waiting() -> None:
    queue = Queue(cap=1)
    queue.run("a", HIGH)
    queue.join("l", LOW)
    queue.join("l", LOW)
    assert queue.discipline.yields_to(a_request("a", HIGH).request) is None


def test_in_an_empty_queue_there_is_nobody_to_make_room() -> None:
    assert Queue().discipline.yields_to(a_request("a").request) is None


# The seats ahead


def test_all_of_higher_priority_are_ahead_and_nobody_of_a_lower() -> None:
    queue = Queue()
    queue.join("h", HIGH, width=3)
    queue.join("l", LOW, width=5)
    assert queue.discipline.seats_ahead(a_request("a").request) == 3
    assert queue.discipline.seats_ahead(a_request("a", HIGH).request) == 1


def test_a_tenant_with_a_short_line_passes_those_with_long_ones() -> None:
    queue = Queue()
    for _ in range(100):
        queue.join("flood")
    assert queue.discipline.seats_ahead(a_request("flood").request) == 100
    assert queue.discipline.seats_ahead(a_request("a").request) == 1


def test_a_heavy_tenant_sees_less_ahead_of_it() -> None:
    queue = Queue(weights={"a": 4.0})
    for _ in range(100):
        queue.join("flood")
    for _ in range(7):
        queue.join("a")
    assert queue.discipline.seats_ahead(a_request("a").request) == 9  # its 7, 2 of the others
    queue.join("a")
    assert queue.discipline.seats_ahead(a_request("a").request) == 11  # 8, and 2.25 of them


def test_of_equals_as_many_are_ahead_as_get_a_seat_for_each_of_ones_own() -> None:
    queue = Queue()
    for _ in range(100):
        queue.join("flood")
    for _ in range(7):
        queue.join("a")
    assert queue.discipline.seats_ahead(a_request("a").request) == 15


def test_whoever_waits_below_a_cap_is_ahead_of_nobody() -> None:
    queue = Queue(cap=1)
    queue.run("h", HIGH)
    for _ in range(9):
        queue.join("h", HIGH)
    assert queue.discipline.seats_ahead(a_request("a").request) == 0


# What is remembered


def test_a_tenant_that_is_away_for_a_moment_keeps_what_it_owes() -> None:
    queue = Queue()
    for _ in range(3):
        queue.join("b")
    a = queue.run("a", width=8)
    queue.now_s = 20.0
    queue.give_back(a)
    queue.join("a")
    assert queue.granted(3) == "bbb"


def test_of_names_that_come_and_go_a_thousand_are_remembered() -> None:
    queue = Queue()
    for number in range(2000):
        name = str(number)
        queue.discipline.remove(queue.join(name, LOW))
        queue.give_back(queue.run(name))
    assert len(queue.discipline._tenants) == 1000
    assert len(queue.discipline._idle) == 1000


def test_those_who_have_been_away_longest_are_forgotten_first() -> None:
    queue = Queue()
    for number in range(REMEMBERED_TENANTS + 1):
        queue.give_back(queue.run(str(number)))
    assert "0" not in queue.discipline._tenants
    assert str(REMEMBERED_TENANTS) in queue.discipline._tenants


def test_who_runs_or_waits_is_counted_and_shown_and_nobody_else() -> None:
    queue = Queue(weights={"a": 2.0})
    assert (queue.discipline.active_tenants, queue.discipline.tenants()) == (0, [])
    first, second = queue.run("a"), queue.run("a")
    waiter = queue.join("a")
    queue.join("b")
    queue.give_back(queue.run("c"))
    assert queue.discipline.active_tenants == 2
    queue.discipline.remove(waiter)
    queue.give_back(first)
    assert queue.discipline.active_tenants == 2
    shown = [TenantSnapshot("a", 1, 0, 2.0), TenantSnapshot("b", 0, 1, 1.0)]
    assert queue.discipline.tenants() == shown
    queue.give_back(second)
    assert queue.discipline.active_tenants == 1
    queue.run("a")
    assert queue.discipline.active_tenants == 2


def test_who_waits_or_runs_is_not_forgotten() -> None:
    queue = Queue(cap=1)
    queue.run("a")
    waiter = queue.join("b")
    for number in range(2 * REMEMBERED_TENANTS):
        queue.give_back(queue.run(str(number)))
    assert queue.discipline.over_cap(a_request("a").request)
    assert queue.discipline.head() is waiter


# Arguments


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_is_more_than_nothing(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        Queue(weights={"a": weight})


def test_a_cap_is_at_least_one_seat() -> None:
    with pytest.raises(ValueError, match="cap"):
        Queue(cap=0)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_a_trickle_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="trickle"):
        Queue(trickle_share=share)


def test_behind_the_head_other_tenants_go_before_its_own() -> None:
    queue = Queue()
    queue.join("a", width=4)
    own, other = queue.join("a"), queue.join("b")
    assert queue.discipline.second() is other
    queue.discipline.remove(other)
    assert queue.discipline.second() is own


def test_behind_the_head_a_higher_priority_goes_first_and_a_lower_one_at_last() -> None:
    queue = Queue()
    head, low, normal = queue.join("a", HIGH), queue.join("b", LOW), queue.join("c")
    assert queue.discipline.head() is head
    assert queue.discipline.second() is normal
    queue.discipline.remove(normal)
    assert queue.discipline.second() is low


def test_behind_the_head_nobody_goes_past_the_cap_of_its_tenant() -> None:
    queue = Queue(cap=3)
    queue.run("a")
    queue.join("a", width=2)
    queue.join("a", width=3)
    assert queue.discipline.second() is None
