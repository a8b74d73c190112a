"""What every store of leases promises to the gateways that share a limit, and the engine to see.

The same gateways, on the same clock, over the store in memory and over a real Redis.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.shared_limit.memory_store import MemoryStore
from proxy.shared_limit.redis_store import RedisStore
from proxy.shared_limit.store import GRACE_S, LEASE_S, Renewal
from tests.support.redis_server import redis
from tests.support.sharing_gateways import ENGINE, RENEWS_EVERY_S, Clock, Link, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.shared_limit.store import LeaseStore
    from tests.support.redis_server import RedisServer
    from tests.support.sharing_gateways import Gateway

__all__ = ["redis"]

LIMIT = 8
# A gateway that is stopped, or cut off, is waited for for longer than that.
LONGEST_ABSENCE_S = 8.0

_clusters = count()


class InMemory:
    def __init__(self, clock: Clock, _redis: RedisServer) -> None:
        self.store = MemoryStore(clock)
        self.store.open_connections = set()

    def new_store(self, name: str) -> LeaseStore:
        assert self.store.open_connections is not None
        self.store.open_connections.add(name)
        return self.store

    def died(self, name: str) -> None:
        assert self.store.open_connections is not None
        self.store.open_connections.discard(name)

    def forget(self) -> None:
        self.store.restart()


class InRedis:
    def __init__(self, clock: Clock, redis: RedisServer) -> None:
        self.clock = clock
        self.redis = redis
        self.cluster = f"cluster-{next(_clusters)}"

    def new_store(self, name: str) -> LeaseStore:
        return RedisStore(self.redis.url, self.cluster, name, self.clock)

    def died(self, name: str) -> None:
        """Its store closes the connection."""

    def forget(self) -> None:
        self.redis.command("DEL", f"sluice:lease:{{{self.cluster}}}:{ENGINE}")


KINDS = pytest.mark.parametrize("kind", [InMemory, InRedis])
Kind = type[InMemory] | type[InRedis]


def in_a_world(
    kind: Kind, redis: RedisServer, scenario: Callable[[World, Any], Awaitable[None]]
) -> None:
    async def main() -> None:
        clock = Clock()
        behind = kind(clock, redis)
        world = World(behind.new_store, clock, LIMIT, behind.died)
        try:
            await scenario(world, behind)
        finally:
            await world.close()

    asyncio.run(main())


async def joined(world: World, gateways: int) -> None:
    """All have registered, and the store's first seconds are over."""
    for _ in range(gateways):
        world.join()
    await world.pass_time(GRACE_S + 1)


@KINDS
def test_a_gateway_alone_has_all_seats_before_anybody_asks(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 1)
        assert world.gateways[0].limit.seats == LIMIT

    in_a_world(kind, redis, scenario)


@KINDS
def test_idle_gateways_hold_even_shares(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 4)
        assert [one.limit.seats for one in world.gateways] == [2, 2, 2, 2]

    in_a_world(kind, redis, scenario)


@KINDS
def test_seats_go_where_they_are_needed_and_come_back(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 2)
        busy, idle = world.gateways
        busy.wait_for(20)
        await world.pass_time(1)
        assert (busy.taken, idle.limit.seats) == (LIMIT, 0)
        idle.wait_for(3)
        await world.pass_time(2 * RENEWS_EVERY_S)
        busy.end(4)
        await world.pass_time(1)
        assert (busy.taken, idle.taken) == (5, 3)

    in_a_world(kind, redis, scenario)


@KINDS
def test_who_want_more_than_there_is_share_it_evenly(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 3)
        for gateway in world.gateways:
            gateway.wait_for(1000)
        for _turn in range(40):
            world.gateways[0].end(1)
            world.gateways[1].end(1)
            world.gateways[2].end(1)
            await world.pass_time(RENEWS_EVERY_S)
        assert sorted(one.taken for one in world.gateways) == [2, 3, 3]

    in_a_world(kind, redis, scenario)


@KINDS
def test_a_request_wider_than_its_share_gets_its_seats(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 2)
        greedy, wide = world.gateways
        greedy.wait_for(1000)
        await world.pass_time(1)
        wide.wait_for(1, widest=6)
        for _turn in range(20):
            greedy.end(1)
            await world.pass_time(RENEWS_EVERY_S)
        assert wide.taken == 6

    in_a_world(kind, redis, scenario)


@KINDS
def test_a_gateway_that_has_died_leaves_its_seats_within_5_seconds(
    kind: Kind, redis: RedisServer
) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 2)
        first, second = world.gateways
        first.wait_for(1000)
        second.wait_for(1000)
        for gateway in (first, second):
            gateway.end(1)
        await world.pass_time(2)
        await world.kill(first)
        await world.pass_time(5)
        assert second.taken == LIMIT

    in_a_world(kind, redis, scenario)


@KINDS
def test_a_gateway_that_is_stopped_keeps_its_seats_and_grants_nothing_until_it_has_heard(
    kind: Kind, redis: RedisServer
) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 2)
        stopped, other = world.gateways
        stopped.wait_for(2)
        other.wait_for(1000)
        await world.pass_time(1)
        stopped.is_stopped = True
        await world.pass_time(LONGEST_ABSENCE_S)
        assert (stopped.taken, other.taken) == (2, LIMIT - 2)
        stopped.is_stopped = False
        assert stopped.limit.seats == 0
        await stopped.renew()
        assert stopped.limit.seats == 2

    in_a_world(kind, redis, scenario)


@KINDS
def test_without_the_store_everybody_goes_on_with_what_he_holds(
    kind: Kind, redis: RedisServer
) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 2)
        for gateway in world.gateways:
            gateway.linked.link = Link.CUT
        await world.pass_time(60)
        for gateway in world.gateways:
            gateway.wait_for(1000)
        await world.pass_time(60)
        assert [one.taken for one in world.gateways] == [4, 4]

    in_a_world(kind, redis, scenario)


@KINDS
def test_a_store_that_has_lost_its_memory_counts_nobody_twice_and_forgets_nobody(
    kind: Kind, redis: RedisServer
) -> None:
    async def scenario(world: World, behind: InMemory | InRedis) -> None:
        await joined(world, 2)
        first, second = world.gateways
        first.wait_for(6)
        await world.pass_time(1)
        first.is_stopped = True
        behind.forget()
        second.wait_for(1000)
        await world.pass_time(LONGEST_ABSENCE_S)
        assert (first.taken, second.taken) == (6, 1)  # the first one holds a seat in reserve
        first.is_stopped = False
        first.end(3)
        await world.pass_time(GRACE_S + 1)
        assert (first.taken, second.taken) == (3, LIMIT - 3)

    in_a_world(kind, redis, scenario)


@KINDS
def test_gateways_that_were_told_different_limits_keep_to_the_smallest(
    kind: Kind, redis: RedisServer
) -> None:
    async def scenario(world: World, _: object) -> None:
        world.join(most=20)
        world.join(most=LIMIT)
        await world.pass_time(GRACE_S + 1)
        world.gateways[0].wait_for(1000)
        await world.pass_time(2)
        assert world.gateways[0].taken == LIMIT

    in_a_world(kind, redis, scenario)


# Whatever happens ---------------------------------------------------------------------------------

WHO = st.integers(0, 3)
EVENTS = st.one_of(
    st.tuples(st.just("wait"), WHO, st.sampled_from([0, 5, 1000]), st.sampled_from([1, 1, 3, 9])),
    st.tuples(st.just("end"), WHO, st.integers(1, 8)),
    st.tuples(st.just("link"), WHO, st.sampled_from(list(Link))),
    st.tuples(st.just("stop"), WHO),
    st.tuples(st.just("go"), WHO),
    st.tuples(st.just("kill"), WHO),
    st.tuples(st.just("forget")),
)
LIVES = st.lists(st.tuples(EVENTS, st.sampled_from([0.0, 0.25, 1.0, 4.0])), min_size=8, max_size=30)


class Life:
    """Plays events on a world of four gateways, and looks at the engine after each."""

    def __init__(self, world: World, behind: InMemory | InRedis) -> None:
        self.world = world
        self.behind = behind
        self.absent_since: dict[str, float] = {}

    async def play(self, event: tuple[Any, ...]) -> None:
        name, *details = event
        if name == "forget":
            await self.forget()
        else:
            who = self.world.gateways[details[0]]
            await getattr(self, name)(who, *details[1:])
        assert self.world.taken <= LIMIT

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / RENEWS_EVERY_S)):
            await self.world.pass_time(RENEWS_EVERY_S)
            assert self.world.taken <= LIMIT
            for who in self.world.gateways:
                if who.is_stopped or who.linked.link is not Link.UP:
                    since = self.absent_since.setdefault(who.name, self.world.clock.now)
                    if self.world.clock.now - since >= LONGEST_ABSENCE_S:
                        await self.go(who)
                else:
                    self.absent_since.pop(who.name, None)

    async def wait(self, who: Gateway, requests: int, widest: int) -> None:
        if not who.is_stopped:
            who.wait_for(requests, widest)

    async def end(self, who: Gateway, seats: int) -> None:
        """The engine ends requests of a stopped gateway too, which finds out when it goes on."""
        if not who.is_stopped:
            who.end(seats)

    async def link(self, who: Gateway, link: Link) -> None:
        await self.world.renew()  # all have heard of each other
        who.linked.link = link

    async def stop(self, who: Gateway) -> None:
        await self.world.renew()
        who.is_stopped = True

    async def go(self, who: Gateway) -> None:
        who.is_stopped = False
        who.linked.link = Link.UP
        await who.renew()
        self.absent_since.pop(who.name, None)

    async def forget(self) -> None:
        """Where nobody is left who knows the others, none can be waited for: a gateway that begins
        just then takes itself for the first (docs/several-gateways.md)."""
        if all(one.is_stopped or one.linked.link is not Link.UP for one in self.world.gateways):
            await self.go(self.world.gateways[0])
        await self.world.renew()
        self.behind.forget()

    async def kill(self, who: Gateway) -> None:
        await self.world.renew()
        await self.world.kill(who)
        self.world.join()


async def live(world: World, behind: InMemory | InRedis, events: list[Any]) -> None:
    """Everybody has as much to do as there is room for, and room is made now and then."""
    await joined(world, 4)
    life = Life(world, behind)
    for who in world.gateways:
        who.wait_for(1000)
    for event, seconds in events:
        await life.play(event)
        await life.pass_time(seconds)
    for who in world.gateways:
        await life.go(who)
        who.wait_for(1000)
    for _turn in range(80):
        for who in world.gateways:
            who.end(1)
        await life.pass_time(RENEWS_EVERY_S)
    await life.pass_time(2)
    assert world.taken == LIMIT


@given(events=LIVES)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_never_are_more_seats_taken_than_there_are_and_in_the_end_all_are(
    redis: RedisServer, events: list[Any]
) -> None:
    in_a_world(InMemory, redis, lambda world, behind: live(world, behind, events))


@given(events=LIVES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nor_are_there_in_a_real_redis(redis: RedisServer, events: list[Any]) -> None:
    in_a_world(InRedis, redis, lambda world, behind: live(world, behind, events))


RENEWALS = st.builds(
    Renewal,
    gateway=st.sampled_from(["0a", "0b", "b0", "c1"]),
    seq=st.integers(1, 6),
    keep=st.integers(0, 6),
    want=st.integers(0, 12),
    widest=st.integers(0, 10),
    waited_ms=st.integers(0, 10_000),
    limit=st.sampled_from([8, 8, 8, 5, 30]),
    known=st.lists(st.sampled_from(["0a", "0b", "dd"]), max_size=2).map(tuple),
    gone=st.dictionaries(st.sampled_from(["0a", "b0"]), st.integers(1, 6), max_size=2),
    leaves=st.sampled_from([False] * 9 + [True]),
)


@given(
    history=st.lists(
        st.tuples(st.floats(0, 5), st.sampled_from([""] * 9 + ["forget"]), RENEWALS), max_size=30
    )
)
@settings(max_examples=60, deadline=None)
def test_the_script_and_the_rules_say_the_same_to_whatever_they_are_asked(
    redis: RedisServer, history: list[tuple[float, str, Renewal]]
) -> None:
    async def main() -> None:
        clock = Clock()
        rules, script = InMemory(clock, redis), InRedis(clock, redis)
        stores = [rules.new_store("0a"), script.new_store("0a")]
        try:
            for seconds, event, renewal in history:
                clock.now += seconds
                if event:
                    rules.forget()
                    script.forget()
                said = [await store.renew({ENGINE: renewal}) for store in stores]
                assert said[0] == said[1]
        finally:
            await stores[1].aclose()

    asyncio.run(main())


@KINDS
def test_a_lease_lasts_longer_than_some_renewals_take(kind: Kind, redis: RedisServer) -> None:
    async def scenario(world: World, _: object) -> None:
        await joined(world, 1)
        world.clock.now += LEASE_S
        assert world.gateways[0].limit.seats == LIMIT
        world.clock.now += 0.01
        assert world.gateways[0].limit.seats == 0

    in_a_world(kind, redis, scenario)
