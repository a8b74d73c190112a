from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, cast

import pytest

from proxy.upstream.errors import UpstreamTimeoutError
from proxy.upstream.total_limit import in_time, took_too_long
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.upstream.port import UpstreamResponse


class Exchanges:
    """One, whose head takes a while. What it was left with is noted."""

    def __init__(self, head_s: float = 0) -> None:
        self.head_s = head_s
        self.left_with: BaseException | None = None

    @contextlib.asynccontextmanager
    async def exchange(self) -> AsyncIterator[UpstreamResponse]:
        await asyncio.sleep(self.head_s)
        try:
            yield cast("UpstreamResponse", object())
        except BaseException as error:
            self.left_with = error
            raise


def test_it_ends_the_exchange_whatever_its_task_waits_for() -> None:
    async def scenario() -> None:
        exchanges = Exchanges(head_s=3)
        with pytest.raises(UpstreamTimeoutError, match="took longer than 5 s") as caught:
            async with in_time(exchanges.exchange(), 5, "engine:8000"):
                await asyncio.sleep(1000)
        assert now() == 5, "the wait for the head is counted too"
        assert caught.value is exchanges.left_with
        assert caught.value.is_ours

    run(scenario())


def test_an_exchange_that_ends_in_time_is_not_touched() -> None:
    async def scenario() -> None:
        exchanges = Exchanges()
        async with in_time(exchanges.exchange(), 5, "engine:8000"):
            await asyncio.sleep(4)
        await asyncio.sleep(100)
        assert exchanges.left_with is None

    run(scenario())


def test_what_else_takes_too_long_inside_is_what_it_is() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with in_time(Exchanges().exchange(), 5, "engine:8000"), asyncio.timeout(2):
                await asyncio.sleep(1000)
        assert now() == 2

    run(scenario())


def test_a_cancellation_in_the_same_moment_goes_on() -> None:
    """As that of a client that leaves: nobody is there to be told of the limit."""

    async def scenario() -> None:
        async def exchanges() -> None:
            async with in_time(Exchanges().exchange(), 5, "engine:8000"):
                await asyncio.sleep(1000)

        task = asyncio.create_task(exchanges())
        await asyncio.sleep(4)
        asyncio.get_running_loop().call_at(5, task.cancel)
        await asyncio.wait([task])
        assert task.cancelled()

    run(scenario())


def test_it_says_where_and_how_long() -> None:
    error = took_too_long("engine:8000", 2.5)
    assert str(error) == "engine at engine:8000: the exchange took longer than 2.5 s"
