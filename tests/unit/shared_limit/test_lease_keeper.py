from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.admission.snapshot import NO_DEMAND, Demand
from proxy.shared_limit.lease_keeper import LeaseKeeper
from proxy.shared_limit.memory_store import MemoryStore
from proxy.shared_limit.store import StoreAwayError, StoreRefusedError
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from proxy.shared_limit.leased_limit import LeasedLimit
    from proxy.shared_limit.store import Granted, Renewal


class Store(MemoryStore):
    """Fails as it is told, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(now)
        self.fails_with: Exception | None = None
        self.asked: list[float] = []
        self.engines: list[tuple[str, tuple[str, ...]]] = []
        self.is_closed = False

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        self.asked.append(now())
        self.engines += [(one.gateway, tuple(asked)) for one in list(asked.values())[:1]]
        if self.fails_with is not None:
            raise self.fails_with
        return await super().renew(asked)

    async def aclose(self) -> None:
        self.is_closed = True


class Stand:
    """A keeper of one lease of 8 seats, of which `demand` is needed."""

    def __init__(self, store: Store | None = None, name: str = "a") -> None:
        self.store = store or Store()
        assert self.store.open_connections is not None
        self.store.open_connections.add(name)
        self.demand = NO_DEMAND
        self.growths = 0
        self.keeper = LeaseKeeper(self.store, name, self._demand_of, self._grown, now)
        self.limit: LeasedLimit = self.keeper.lease("engine", 8)

    def _demand_of(self, engine: str) -> Demand:
        return self.demand if engine == "engine" else NO_DEMAND

    def _grown(self) -> None:
        self.growths += 1

    async def settle(self) -> None:
        self.keeper.start()
        await asyncio.sleep(4)


def test_once_started_it_gets_seats_and_says_so() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        assert (stand.limit.seats, stand.growths) == (8, 1)
        await stand.keeper.stop()
        assert stand.store.is_closed

    run(scenario())


def test_with_seats_to_spare_the_store_is_asked_four_times_a_second() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        stand.store.asked.clear()
        stand.demand = Demand(8, 0, 0, 0.0)
        await asyncio.sleep(10)
        assert 35 <= len(stand.store.asked) <= 41
        await stand.keeper.stop()

    run(scenario())


def test_when_somebody_has_to_wait_it_is_asked_at_once() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        stand.store.asked.clear()
        waits_since = now()
        stand.demand = Demand(8, 1, 1, 0.0)
        await asyncio.sleep(0.1)
        assert stand.store.asked[0] - waits_since < 0.051
        await stand.keeper.stop()

    run(scenario())


def test_what_others_are_to_give_back_is_asked_for_twenty_times_a_second_and_nothing_else() -> None:
    async def scenario() -> None:
        store = Store()
        busy, stand = Stand(store, "b"), Stand(store, "a")
        await busy.settle()
        busy.demand = Demand(8, 8, 1, 0.0)
        stand.keeper.lease("quiet", 8)
        await stand.settle()
        stand.demand = Demand(0, 8, 1, 0.0)
        await asyncio.sleep(1)
        store.engines.clear()
        await asyncio.sleep(1)
        asked = [engines for gateway, engines in store.engines if gateway == "a"]
        assert 3 <= asked.count(("engine", "quiet")) <= 5
        assert 12 <= asked.count(("engine",)) <= 17
        assert [engines for gateway, engines in store.engines if gateway == "b"] == [
            ("engine",)
        ] * asked.count(("engine", "quiet"))
        for one in (busy, stand):
            await one.keeper.stop()

    run(scenario())


def test_a_keeper_without_engines_asks_nothing() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        stand.keeper.give_up("engine")
        await asyncio.sleep(1)
        assert stand.store.held("engine") == {}
        stand.store.asked.clear()
        await asyncio.sleep(2)
        assert stand.store.asked == []
        await stand.keeper.stop()

    run(scenario())


def test_an_engine_that_comes_back_has_a_lease_again_before_the_store_heard_or_after() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        for pause_s in (0, 1):
            stand.keeper.give_up("engine")
            await asyncio.sleep(pause_s)
            limit = stand.keeper.lease("engine", 8)
            assert limit.seats == 0
            await asyncio.sleep(1)
            assert limit.seats == 8
        await stand.keeper.stop()

    run(scenario())


def test_stopped_it_has_given_everything_back() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        await stand.keeper.stop()
        assert stand.store.held("engine") == {}

    run(scenario())


def test_one_that_was_never_started_or_never_heard_stops_too() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.keeper.stop()
        assert stand.store.asked == []
        stand = Stand()
        stand.store.fails_with = StoreAwayError("refused")
        await stand.settle()
        await stand.keeper.stop()
        assert stand.store.is_closed

    run(scenario())


def test_a_lost_store_is_logged_once_and_costs_no_seat(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        stand.store.fails_with = StoreAwayError("connection refused")
        await asyncio.sleep(100)
        assert stand.limit.seats == 8
        state = stand.keeper.state()
        assert (state.is_store_up, state.leases) == (False, {"engine": 8})
        assert state.age_s is not None
        assert 99 < state.age_s < 101
        stand.store.fails_with = None
        await asyncio.sleep(1)
        assert stand.keeper.state().is_store_up
        stand.store.fails_with = StoreAwayError("gone again")
        await stand.keeper.stop()

    with caplog.at_level(logging.INFO, "sluice.shared_limit"):
        run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "the store of the shared limit answers, 1 gateways",
        (
            "the store of the shared limit is lost: connection refused; "
            "going on with the 8 seats held here"
        ),
        "the store of the shared limit answers, 1 gateways",
    ]


def test_a_store_that_is_there_but_not_for_us_may_give_our_seats_to_others() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        stand.store.fails_with = StoreRefusedError("invalid password")
        await asyncio.sleep(4)
        assert stand.limit.seats == 0
        await stand.keeper.stop()

    run(scenario())


def test_that_a_lost_store_comes_back_and_refuses_us_is_another_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a restart with another password: `going on` is no longer true."""

    async def scenario() -> None:
        stand = Stand()
        await stand.settle()
        caplog.clear()
        refusals = ("Authentication required", "max number of clients reached")
        for error in (StoreAwayError("closed"), *map(StoreRefusedError, refusals)):
            stand.store.fails_with = error
            await asyncio.sleep(2)
            assert stand.keeper.state().trouble == str(error)
        stand.store.fails_with = StoreAwayError("closed")
        await asyncio.sleep(2)
        assert stand.limit.seats == 0
        stand.store.fails_with = None
        await asyncio.sleep(1)
        assert stand.keeper.state().trouble is None
        await stand.keeper.stop()

    run(scenario())
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        "the store of the shared limit is lost: closed; going on with the 8 seats held here",
        (
            "the store of the shared limit refuses this gateway: Authentication required; others "
            "may be given its 8 seats, so after 3 s without an answer it lets nothing in"
        ),
    ]


def test_of_a_store_that_was_never_there_every_new_reason_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        stand = Stand()
        stand.keeper.start()
        for reason in ("no such host", "connection refused"):
            stand.store.fails_with = StoreAwayError(reason)
            await asyncio.sleep(2)
        await stand.keeper.stop()

    run(scenario())
    assert [record.getMessage().split(":")[1][:12] for record in caplog.records] == [
        " no such hos",
        " connection ",
    ]


def test_a_dead_gateway_is_found_and_its_seats_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = Store()
        first, second = Stand(store, "a"), Stand(store, "b")
        await asyncio.gather(first.settle(), second.settle())
        second.keeper._task.cancel()  # type: ignore[union-attr]
        assert store.open_connections is not None
        store.open_connections.discard("b")
        await asyncio.sleep(4)
        assert first.limit.seats == 8
        await first.keeper.stop()

    run(scenario())
    assert "gateway b has died: its seats are free" in caplog.text


def test_a_silent_gateway_whose_connection_is_open_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        store = Store()
        first, second = Stand(store, "a"), Stand(store, "b")
        await asyncio.gather(first.settle(), second.settle())
        second.keeper._task.cancel()  # type: ignore[union-attr]
        await asyncio.sleep(100)
        assert (first.limit.seats, first.keeper.state().gateways) == (4, 2)
        await first.keeper.stop()

    run(scenario())
    assert caplog.text.count("gateway b does not renew its lease") == 1


def test_where_connections_cannot_be_seen_a_silent_gateway_is_waited_for_for_30_s() -> None:
    async def scenario() -> None:
        store = Store()
        first, second = Stand(store, "a"), Stand(store, "b")
        await asyncio.gather(first.settle(), second.settle())
        store.open_connections = None
        second.keeper._task.cancel()  # type: ignore[union-attr]
        await asyncio.sleep(28)
        assert first.limit.seats == 4
        await asyncio.sleep(4)
        assert first.limit.seats == 8
        await first.keeper.stop()

    run(scenario())


def test_before_anything_was_heard_nothing_is_known() -> None:
    async def scenario() -> None:
        state = Stand().keeper.state()
        assert (state.is_store_up, state.gateways, state.age_s) == (False, 0, None)
        assert state.leases == {"engine": 0}

    run(scenario())


def test_of_limits_that_are_changed_while_they_run_the_smallest_holds_for_all() -> None:
    async def scenario() -> None:
        store = Store()
        one, other = Stand(store, "a"), Stand(store, "b")
        one.demand = other.demand = Demand(taken=0, waiting=20, widest=1, waited_s=1.0)
        await one.settle()
        await other.settle()

        async def seats_for(mine: int, theirs: int) -> int:
            one.limit.set_most(mine)
            other.limit.set_most(theirs)
            await asyncio.sleep(2)
            return one.limit.seats + other.limit.seats

        assert await seats_for(8, 8) == 8
        assert await seats_for(3, 8) == 3
        assert await seats_for(8, 8) == 8
        assert await seats_for(16, 8) == 8
        assert await seats_for(16, 16) == 16
        await one.keeper.stop()
        await other.keeper.stop()

    run(scenario())
