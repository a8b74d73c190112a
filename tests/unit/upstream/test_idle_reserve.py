"""Which idle connections go when descriptors run short, over played pools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from proxy.upstream.idle_reserve import IdleReserve
from tests.support.virtual_time import run, settle


@dataclass(eq=False)
class Pool:
    """`idle`: since when each of them rests, the oldest first."""

    idle: list[float]
    in_use: int = 0
    ended: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def connections(self) -> int:
        return self.in_use + len(self.idle)

    @property
    def oldest_idle_since(self) -> float | None:
        return self.idle[0] if self.idle else None

    def give_up_oldest_idle(self) -> asyncio.Future[None]:
        del self.idle[0]
        self.ended.append(asyncio.get_running_loop().create_future())
        return self.ended[-1]


def reserve_of(*pools: Pool) -> IdleReserve:
    reserve = IdleReserve()
    for pool in pools:
        reserve.join(pool)
    return reserve


def test_the_one_goes_that_has_rested_longest_of_all_pools() -> None:
    async def scenario() -> None:
        one, other = Pool([1.0, 3.0]), Pool([2.0, 2.0])
        reserve = reserve_of(Pool([]), one, other)
        for left in ([3.0, 2.0, 2.0], [3.0, 2.0], [3.0], []):
            asyncio.create_task(reserve.free_one())  # noqa: RUF006 - it waits for an end
            await settle()
            assert one.idle + other.idle == left
        for ended in one.ended + other.ended:
            ended.set_result(None)

    run(scenario())


def test_a_descriptor_is_free_once_its_connection_has_ended() -> None:
    async def scenario() -> None:
        pool = Pool([1.0])
        freeing = asyncio.create_task(reserve_of(pool).free_one())
        await asyncio.sleep(10)
        assert not freeing.done()
        pool.ended[0].set_result(None)
        assert await freeing

    run(scenario())


def test_there_may_be_none_to_give_up() -> None:
    async def scenario() -> None:
        assert not await IdleReserve().free_one()
        assert not await reserve_of(Pool([], in_use=3)).free_one()
        left = Pool([1.0])
        reserve = reserve_of(left)
        reserve.leave(left)
        assert not await reserve.free_one()
        assert left.idle == [1.0]

    run(scenario())


def test_who_no_longer_waits_for_it_does_not_keep_the_connection_from_ending() -> None:
    async def scenario() -> None:
        pool = Pool([1.0])
        freeing = asyncio.create_task(reserve_of(pool).free_one())
        await settle()
        freeing.cancel()
        await asyncio.wait([freeing])
        assert freeing.cancelled()
        assert not pool.ended[0].done()

    run(scenario())


def test_room_is_made_within_what_there_may_be_in_all() -> None:
    async def scenario() -> None:
        most = 7
        one, other = Pool([1.0, 3.0], in_use=2), Pool([2.0, 4.0], in_use=1)
        reserve = reserve_of(one, other)
        reserve.make_room()
        assert (one.idle, other.idle) == ([1.0, 3.0], [2.0, 4.0]), "nobody has said how many"
        reserve.keep_within(lambda: most)
        reserve.make_room()
        assert (one.idle, other.idle) == ([1.0, 3.0], [2.0, 4.0])
        other.in_use += 1
        reserve.make_room()
        assert (one.idle, other.idle) == ([3.0], [2.0, 4.0])
        most = 5
        reserve.make_room()
        assert (one.idle, other.idle) == ([], [4.0])
        most = 0
        reserve.make_room()
        assert (one.connections, other.connections) == (2, 2), "what is in use is not touched"

    run(scenario())
