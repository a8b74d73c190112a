"""Which idle connection goes when descriptors run out, over played connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from proxy.upstream.idle_reserve import IdleReserve
from tests.support.virtual_time import run, settle

if TYPE_CHECKING:
    from proxy.upstream.connection import Connection


@dataclass(eq=False)
class Idle:
    idle_since: float
    aborts: int = 0
    lost: asyncio.Future[None] = field(default_factory=asyncio.Future)

    def abort(self) -> None:
        self.aborts += 1


@dataclass(eq=False)
class Pool:
    idle: list[Idle]

    def oldest_idle(self) -> Connection | None:
        return cast("Connection", self.idle[0]) if self.idle else None


def reserve_of(*pools: Pool) -> IdleReserve:
    reserve = IdleReserve()
    for pool in pools:
        reserve.join(pool)
    return reserve


def test_the_one_goes_that_has_been_idle_longest_of_all_pools() -> None:
    async def scenario() -> None:
        older, younger = Pool([Idle(1.0), Idle(3.0)]), Pool([Idle(2.0)])
        for reserve in (reserve_of(older, younger, Pool([])), reserve_of(younger, older)):
            older.idle[0].aborts = 0
            older.idle[0].lost = asyncio.get_running_loop().create_future()
            giving = asyncio.create_task(reserve.give_up_one())
            await settle()
            assert [one.aborts for one in older.idle + younger.idle] == [1, 0, 0]
            older.idle[0].lost.set_result(None)
            assert await giving

    run(scenario())


def test_it_is_given_up_once_its_descriptor_is_free() -> None:
    async def scenario() -> None:
        pool = Pool([Idle(1.0)])
        giving = asyncio.create_task(reserve_of(pool).give_up_one())
        await asyncio.sleep(10)
        assert not giving.done()
        pool.idle[0].lost.set_result(None)
        assert await giving

    run(scenario())


def test_there_may_be_none_to_give_up() -> None:
    async def scenario() -> None:
        assert not await IdleReserve().give_up_one()
        assert not await reserve_of(Pool([])).give_up_one()
        left, reserve = Pool([Idle(1.0)]), IdleReserve()
        reserve.join(left)
        reserve.leave(left)
        assert not await reserve.give_up_one()
        assert not left.idle[0].aborts

    run(scenario())


def test_who_no_longer_waits_for_it_does_not_keep_the_connection_from_ending() -> None:
    async def scenario() -> None:
        pool = Pool([Idle(1.0)])
        giving = asyncio.create_task(reserve_of(pool).give_up_one())
        await settle()
        giving.cancel()
        await asyncio.wait([giving])
        assert giving.cancelled()
        assert not pool.idle[0].lost.done()

    run(scenario())
