"""Which upstreams share a queue, and what becomes of those who wait when that changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.admission.account import Account
from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.gate import Gate
from proxy.admission.outcome import Evicted, Reason, Rejected
from proxy.admission.permit import Permit
from proxy.admission.pools import Pools
from proxy.admission.request import AdmissionRequest
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.snapshot import Demand
from proxy.admission.waiter import Waiter
from tests.support.admission import MovableLimit, RecordingObserver
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.admission.pools import Elsewhere

DOWN = Reason.UPSTREAM_UNAVAILABLE
M1, M2, BOTH = frozenset({"m1"}), frozenset({"m2"}), frozenset({"m1", "m2"})


class PoolsInUse:
    """Pools of real gates on the running loop's clock, with upstreams of one seat each."""

    def __init__(self, *upstreams: str, places: int = 10) -> None:
        self.observer = RecordingObserver()
        self.freed: list[str] = []
        self.budget = RetryBudget(0.2)
        self.pools = Pools(self._make_gate, lambda _: places)
        self.limits: dict[str, MovableLimit] = {}
        for name in upstreams:
            self.add(name)

    def _make_gate(self, elsewhere: Elsewhere) -> tuple[Gate, Gate]:
        clock, queue = asyncio.get_running_loop().time, Fifo[Waiter]()
        gate = Gate(
            {},
            0,
            clock,
            self.observer,
            queue,
            self.budget,
            freed_elsewhere=self.freed.append,
            elsewhere=elsewhere,
        )
        return gate, gate

    def add(self, name: str, seats: int = 1, models: frozenset[str] | None = None) -> None:
        self.limits[name] = MovableLimit(seats)
        account = Account(name, self.limits[name])
        account.models = models
        self.pools.add(account)

    def ask(self, name: str, model: str | None = None) -> Permit | Waiter | Rejected:
        request = AdmissionRequest(1, now() + 5, tenant=name, model=model)
        return self.pools.of_model(model).decide(request)

    def granted(self, name: str, model: str | None = None) -> Permit:
        decision = self.ask(name, model)
        assert isinstance(decision, Permit)
        return decision

    def queued(self, name: str, model: str | None = None) -> Waiter:
        decision = self.ask(name, model)
        assert isinstance(decision, Waiter)
        return decision

    def together(self) -> list[set[str]]:
        """Which upstreams share a queue."""
        return [{one.name for one in gate.snapshot().upstreams} for gate in self.pools]

    def depths(self) -> list[int]:
        return [gate.snapshot().queue_depth for gate in self.pools]

    def places(self) -> list[int]:
        return [gate.snapshot().max_queue_depth for gate in self.pools]


def outcome(waiter: Waiter) -> Permit | Evicted | None:
    return waiter.result() if waiter.done() else None


def test_what_is_needed_of_one_is_what_it_holds_and_what_waits_where_it_serves() -> None:
    async def scenario() -> None:
        use = PoolsInUse("a")
        use.granted("1")
        use.queued("2")
        assert use.pools.demand("a", now() + 3) == Demand(1, 1, 1, 3.0)
        use.pools.of("a").suspend("a", DOWN)
        assert use.pools.demand("a", now()) == Demand(1, 0, 0, 0.0)
        account = use.pools.account("a")
        account.ghost = Account("a", account.limit)
        account.ghost.taken = 7
        assert use.pools.demand("a", now()).taken == 7, "what would be held by its limits"

    run(scenario())


def test_nobody_waits_for_one_that_is_suspended_though_they_do_for_the_others() -> None:
    async def scenario() -> None:
        use = PoolsInUse("a", "b")
        for name in "12":
            use.granted(name)
        use.queued("3")
        use.pools.of("a").suspend("a", DOWN)
        assert use.pools.demand("a", now()) == Demand(1, 0, 0, 0.0)
        assert use.pools.demand("b", now()) == Demand(1, 1, 1, 0.0)

    run(scenario())


def test_without_an_upstream_every_model_has_the_same_queue() -> None:
    async def scenario() -> None:
        use = PoolsInUse()
        assert use.pools.of_model("m1") is use.pools.of_model(None) is use.pools.only

    run(scenario())


def test_a_model_that_nobody_serves_waits_in_the_first_queue_however_long_it_is() -> None:
    async def scenario() -> None:
        use = PoolsInUse()
        use.add("a", models=M1)
        use.add("b", models=M2)
        for name in "123":
            use.ask(name, "m1")
        assert use.pools.of_model("m9") is use.pools.of("a")

    run(scenario())


class TestRooms:
    def test_upstreams_of_which_nothing_is_known_share_one_queue(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            assert use.together() == [{"a", "b"}]
            assert use.pools.only is not None

        run(scenario())

    def test_those_that_serve_the_same_share_a_queue(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b", "c", "d")
            for name, models in (("a", M1), ("b", M2), ("c", M1), ("d", M2)):
                use.pools.serves(name, models)
            assert use.together() == [{"a", "c"}, {"b", "d"}]
            assert use.pools.only is None

        run(scenario())

    def test_who_has_told_nothing_stays_with_the_first(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            assert use.together() == [{"a", "b"}]
            assert use.granted("1", "m1").upstream in {"a", "b"}

        run(scenario())

    def test_an_upstream_alone_with_its_queue_may_change_its_model_and_keeps_it(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.granted("1", "m1")
            waiter = use.queued("2", "m1")
            for models in (M1, BOTH, M1):
                use.pools.serves("a", models)
            assert use.together() == [{"a"}]
            assert not waiter.done()

        run(scenario())

    def test_who_waits_for_an_old_model_of_the_only_one_goes_on_waiting_for_it(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.pools.serves("a", M1)
            permit = use.granted("1", "m1")
            waiter = use.queued("2", "m1")
            use.pools.serves("a", M2)
            permit.complete()
            assert isinstance(outcome(waiter), Permit)

        run(scenario())

    def test_those_that_have_told_nothing_are_taken_for_the_same_as_the_first_that_tells(
        self,
    ) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.add("b", models=M1)
            assert use.together() == [{"a", "b"}]
            use.add("c", models=M2)
            use.add("d")
            assert use.together() == [{"a", "b", "d"}, {"c"}]
            assert use.pools.of_model("m1") is use.pools.of("b")

        run(scenario())

    def test_one_that_comes_again_with_another_model_is_an_error_too(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.pools.serves("a", M1)
            with pytest.raises(ValueError, match="already"):
                use.add("a", models=M2)
            assert use.together() == [{"a"}]

        run(scenario())

    def test_a_new_upstream_whose_model_is_known_goes_to_its_like(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.pools.serves("a", M1)
            use.add("b", models=M2)
            use.add("c", models=M1)
            assert use.together() == [{"a", "c"}, {"b"}]

        run(scenario())

    def test_a_queue_that_lost_its_last_upstream_is_gone_unless_it_is_the_last(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", M2)
            use.pools.remove("a")
            assert use.together() == [{"b"}]
            use.pools.remove("b")
            assert use.together() == [set()]
            use.add("c", models=M1)
            assert use.together() == [{"c"}]

        run(scenario())

    def test_thousands_that_come_and_go_leave_no_queue_behind(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.pools.serves("a", M1)
            for number in range(1000):
                use.add("b", models=frozenset({f"m{number}"}))
                use.pools.remove("b")
            assert len(list(use.pools)) == 1
            assert set(use.pools._by_model) == M1

        run(scenario())

    def test_an_upstream_that_is_there_already_or_not_there_is_an_error(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            with pytest.raises(ValueError, match="already"):
                use.add("a")
            for method in (use.pools.remove, use.pools.of, use.pools.account):
                with pytest.raises(KeyError):
                    method("b")
            with pytest.raises(KeyError):
                use.pools.serves("b", M1)
            assert use.pools.knows("a")
            assert not use.pools.knows("b")

        run(scenario())


class TestRoutes:
    def test_a_request_goes_where_its_model_is(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", M2)
            assert use.granted("1", "m2").upstream == "b"
            assert use.granted("2", "m1").upstream == "a"

        run(scenario())

    @pytest.mark.parametrize("model", [None, "", "nobody's"])
    def test_a_model_that_nobody_serves_goes_to_the_first(self, model: str | None) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", M2)
            assert use.granted("1", model).upstream == "a"

        run(scenario())

    def test_a_model_in_two_queues_goes_to_the_shorter(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            use.granted("1", "m1")
            assert use.granted("2", "m1").upstream == "b"
            use.queued("3", "m1")
            use.queued("4", "m1")
            assert use.depths() == [1, 1]

        run(scenario())

    def test_a_model_in_two_queues_does_not_go_to_the_closed_one(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            use.pools.of("a").suspend("a", DOWN)
            use.granted("1", "m1")
            use.queued("2", "m1")

        run(scenario())

    def test_one_that_has_no_seat_yet_is_better_than_a_closed_one(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            use.limits["b"].seats = 0
            use.pools.of("a").suspend("a", DOWN)
            use.queued("1", "m1")

        run(scenario())

    def test_a_full_queue_of_one_model_refuses_nobody_of_the_other(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b", places=2)
            use.pools.serves("a", M1)
            use.pools.serves("b", M2)
            use.granted("1", "m1")
            use.queued("2", "m1")
            refused = use.ask("3", "m1")
            assert isinstance(refused, Rejected)
            assert refused.reason is Reason.QUEUE_FULL
            use.granted("4", "m2")
            use.queued("5", "m2")

        run(scenario())


class TestMoves:
    def test_what_is_taken_goes_with_the_upstream_and_is_given_back_there(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            permit = use.granted("1", "m1")
            name = permit.upstream
            other = "b" if name == "a" else "a"
            use.pools.serves(other, M1)
            use.pools.serves(name, M2)
            assert use.pools.account(name).taken == 1
            waiter = use.queued("2", "m2")
            permit.complete()
            assert use.pools.account(name).taken == 0
            assert use.freed == [name], "whoever waits there must hear of it"
            use.pools.of(name).limit_changed()
            assert isinstance(outcome(waiter), Permit)

        run(scenario())

    def test_seats_are_counted_once_however_often_an_upstream_moves(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.limits["a"].seats = 3
            use.pools.serves("b", M1)
            permits = []
            for models, model in ((M2, "m2"), (M1, "m1"), (BOTH, "m2")):
                use.pools.serves("a", models)
                use.limits["b"].seats = 0
                permits.append(use.granted("x", model))
            assert [permit.upstream for permit in permits] == ["a"] * 3
            assert use.pools.account("a").taken == 3
            for number, permit in enumerate(permits):
                permit.complete()
                assert use.pools.account("a").taken == 2 - number

        run(scenario())

    def test_waiters_go_along_when_the_last_upstream_goes_to_another_queue(self) -> None:
        """An adapter that is loaded on one engine after the other."""

        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            for name in "ab":
                use.pools.serves(name, M1)
                use.granted(name, "m1")
            waiters = [use.queued(name, "m1") for name in "xyz"]
            use.pools.serves("a", BOTH)
            assert sum(use.depths()) == 3
            use.pools.serves("b", BOTH)
            assert use.together() == [{"a", "b"}]
            assert use.depths() == [3]
            assert not any(waiter.done() for waiter in waiters)

        run(scenario())

    def test_waiters_go_along_to_a_queue_that_comes_into_being(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            for name in "12":
                use.granted(name, "m1")
            waiter = use.queued("3", "m1")
            use.pools.of("b").suspend("b", DOWN)
            use.pools.serves("a", BOTH)
            assert use.together() == [{"b"}, {"a"}]
            assert use.depths() == [0, 1]
            assert not waiter.done()

        run(scenario())

    def test_waiters_go_where_the_load_is_least(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse()
            for name, models in (("a", M1), ("b", BOTH), ("c", frozenset({"m1", "m3"}))):
                use.add(name, models=models)
            for gate in use.pools:
                gate.decide(AdmissionRequest(1, now() + 5))
            for model in ("m2", "m2", "m3"):
                use.queued(model, model)
            waiter = use.pools.of("a").decide(AdmissionRequest(1, now() + 5, model="m1"))
            use.pools.of("a").suspend("a", DOWN)
            assert use.depths() == [0, 2, 2]
            assert isinstance(waiter, Waiter)
            assert not waiter.done()

        run(scenario())

    def test_waiters_go_on_in_their_order(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            first, second = use.granted("1", "m1"), use.granted("2", "m1")
            waiters = [use.queued(name, "m1") for name in "xyzw"]
            use.pools.of("a").suspend("a", DOWN)
            assert use.depths() == [0, 4]
            last = second if second.upstream == "b" else first
            last.complete()
            served = [one.request.tenant for one in waiters if isinstance(outcome(one), Permit)]
            assert len(served) == 1
            assert use.depths() == [0, 3]
            joined = [one.joined_at for one in waiters]
            assert joined == sorted(joined)

        run(scenario())

    def test_waiters_of_one_that_fails_are_evicted_when_nobody_else_serves_their_model(
        self,
    ) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", M2)
            use.granted("1", "m1")
            waiter = use.queued("2", "m1")
            use.pools.of("a").suspend("a", DOWN)
            evicted = outcome(waiter)
            assert isinstance(evicted, Evicted)
            assert evicted.reason is DOWN

        run(scenario())

    def test_waiters_of_one_that_is_removed_go_where_their_model_is_left(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            permits = [use.granted(name, "m1") for name in "12"]
            waiters = [use.queued(name, "m1") for name in "34"]
            use.pools.remove("a")
            assert use.depths() == [2]
            for permit in permits:
                permit.complete()
            assert isinstance(outcome(waiters[1]), Permit), "at the end of the queue there"
            assert not waiters[0].done()

        run(scenario())

    def test_who_waits_in_vain_goes_on_once_an_upstream_says_that_it_serves_the_model(
        self,
    ) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a")
            use.pools.serves("a", M1)
            use.granted("1", "m1")
            waiter = use.queued("2", "m2")
            use.add("b", models=M2)
            permit = outcome(waiter)
            assert isinstance(permit, Permit)
            assert permit.upstream == "b"

        run(scenario())

    def test_who_waits_in_vain_goes_on_when_the_upstream_of_its_model_is_back(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.of("b").suspend("b", DOWN)
            use.granted("1", "m1")
            waiter = use.queued("2", "m2")
            use.pools.serves("b", M2)
            assert not waiter.done()
            use.pools.resume("b")
            permit = outcome(waiter)
            assert isinstance(permit, Permit)
            assert permit.upstream == "b"

        run(scenario())

    def test_a_waiter_that_has_moved_still_has_its_deadline_and_may_leave(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            for name in "12":
                use.granted(name, "m1")
            waiters = [use.queued(name, "m1") for name in "xy"]
            use.pools.of("a").suspend("a", DOWN)
            waiters[0].cancel()
            assert use.depths() == [0, 1]
            assert use.observer.of("abandoned") == ["x"]
            await asyncio.sleep(5.1)
            evicted = outcome(waiters[1])
            assert isinstance(evicted, Evicted)
            assert evicted.timed_out
            assert evicted.facts.time_in_queue_s == 5.0
            assert use.depths() == [0, 0]

        run(scenario())


class TestPlaces:
    def test_places_are_shared_by_the_number_of_upstreams(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b", "c", "d", places=10)
            for name, models in (("a", M1), ("b", M1), ("c", M1), ("d", M2)):
                use.pools.serves(name, models)
            assert use.places() == [7, 2]
            use.pools.remove("a")
            assert use.places() == [6, 3]

        run(scenario())

    def test_every_queue_has_a_place_if_there_are_any(self) -> None:
        async def scenario() -> None:
            for places, each in ((1, [1, 1]), (0, [0, 0])):
                use = PoolsInUse("a", "b", places=places)
                use.pools.serves("a", M1)
                use.pools.serves("b", M2)
                assert use.places() == each

        run(scenario())

    def test_nobody_loses_a_place_that_is_no_longer_there(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", places=2)
            use.pools.serves("a", M1)
            use.granted("1", "m1")
            waiters = [use.queued(name, "m1") for name in "23"]
            use.add("b", models=M2)
            assert use.places() == [1, 1]
            assert not any(waiter.done() for waiter in waiters)
            assert isinstance(use.ask("4", "m1"), Rejected)

        run(scenario())


class TestReplacement:
    def test_others_with_a_usable_seat_that_serve_the_same_can_take_over(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            assert use.pools.can_replace("a")
            use.pools.of("b").suspend("b", DOWN)
            assert not use.pools.can_replace("a")
            use.pools.of("b").resume("b")
            use.limits["b"].seats = 0
            assert not use.pools.can_replace("a")

        run(scenario())

    def test_who_serves_more_can_take_over_from_who_serves_less_and_not_the_reverse(self) -> None:
        async def scenario() -> None:
            use = PoolsInUse("a", "b")
            use.pools.serves("a", M1)
            use.pools.serves("b", BOTH)
            assert use.pools.can_replace("a")
            assert not use.pools.can_replace("b")

        run(scenario())

    def test_nobody_can_take_over_from_the_only_one(self) -> None:
        async def scenario() -> None:
            assert not PoolsInUse("a").pools.can_replace("a")

        run(scenario())
