"""Both ends in this process, over a real pair of sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy.workers.changes import Changes
from proxy.workers.channel import ParentEnd, WorkerEnd
from tests.support.gateway_process import eventually
from tests.support.worker_reports import counted, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Pair:
    """`told`: how often the worker was asked for a report, or gave one unasked."""

    def __init__(self) -> None:
        self.told = 0
        self.fails = False

    async def open(self) -> None:
        ours, its = socket.socketpair()
        self.parent = await ParentEnd.open(ours)
        self.adopted: list[Changes] = []
        self.worker = await WorkerEnd.open(its, self._report, self._adopt)
        self.listening = asyncio.create_task(self.parent.listen())
        self.answering = asyncio.create_task(self.worker.answer())

    def _adopt(self, changes: Changes) -> None:
        if self.fails:
            raise MemoryError
        self.adopted.append(changes)

    def _report(self) -> object:
        self.told += 1
        return report(page=counted(self.told))

    @property
    def latest(self) -> float:
        assert self.parent.latest is not None
        return self.parent.latest.page[0].figures[0].value


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    await made.open()
    yield made
    await made.worker.close()
    await asyncio.gather(made.listening, made.answering)


def test_nothing_is_known_of_a_worker_until_it_says_that_it_is_ready() -> None:
    async def scenario() -> None:
        async with pair() as made:
            assert made.parent.latest is None
            assert not await made.parent.ask(1.0)
            made.worker.tell()
            assert await made.parent.ready()
            assert made.latest == 1

    asyncio.run(scenario())


def test_who_asks_gets_a_report_from_after_the_question() -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.worker.tell()
            await made.parent.ready()
            for number in (2, 3):
                assert await made.parent.ask(5.0)
                assert made.latest == number

    asyncio.run(scenario())


def test_several_may_ask_at_once() -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.worker.tell()
            await made.parent.ready()
            assert await asyncio.gather(*(made.parent.ask(5.0) for _ in range(5))) == [True] * 5
            assert made.latest == 6

    asyncio.run(scenario())


def test_a_worker_that_does_not_answer_is_not_waited_for_and_its_last_words_stay() -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.worker.tell()
            await made.parent.ready()
            made.answering.cancel()
            await asyncio.gather(made.answering, return_exceptions=True)
            assert not await made.parent.ask(0.01)
            assert made.latest == 1
            made.answering = asyncio.create_task(made.worker.answer())
            assert await made.parent.ask(5.0)

    asyncio.run(scenario())


def test_a_worker_that_cannot_adopt_a_change_says_so_and_hears_what_comes_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.worker.tell()
            await made.parent.ready()
            made.fails = True
            made.parent.change(Changes({"max_in_flight": 5}))
            await eventually(lambda: bool(caplog.records))
            made.fails = False
            made.parent.change(Changes({"max_in_flight": 7}))
            assert await made.parent.ask(5.0)
            assert [one.values for one in made.adopted] == [{"max_in_flight": 7}]

    asyncio.run(scenario())
    (said,) = caplog.records
    assert said.getMessage() == "a worker could not adopt what was changed, and serves on as it is"
    assert said.exc_info


def test_what_is_asked_after_a_change_is_answered_when_it_was_adopted() -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.parent.change(Changes({"max_in_flight": 5}))
            made.worker.tell()
            await made.parent.ready()
            made.parent.change(Changes({"max_in_flight": 7}, draining=True))
            assert await made.parent.ask(5.0)
            assert made.latest == 2
            assert [one.values["max_in_flight"] for one in made.adopted] == [5, 7]
            assert [one.draining for one in made.adopted] == [False, True]
            await made.worker.close()
            await made.listening
            made.parent.change(Changes())  # nobody is there, which harms nobody

    asyncio.run(scenario())


def test_last_words_arrive_before_the_end() -> None:
    async def scenario() -> None:
        async with pair() as made:
            made.worker.tell()
            made.worker.tell()
            await made.worker.close()
            await made.listening
            assert made.latest == 2
            assert made.parent.is_closed
            assert not await made.parent.ask(1.0)

    asyncio.run(scenario())


def test_one_that_ends_before_it_is_ready_never_was() -> None:
    async def scenario() -> None:
        async with pair() as made:
            ready = asyncio.create_task(made.parent.ready())
            await made.worker.close()
            assert not await ready

    asyncio.run(scenario())


def test_a_worker_notices_that_its_parent_is_gone() -> None:
    async def scenario() -> None:
        ours, its = socket.socketpair()
        worker = await WorkerEnd.open(its, report, print)
        answering = asyncio.create_task(worker.answer())
        ours.close()
        await answering
        worker.tell()  # nobody hears it, which harms nobody
        await worker.close()

    asyncio.run(scenario())


def test_nonsense_is_an_error_and_the_end_of_the_talk() -> None:
    async def scenario() -> None:
        ours, its = socket.socketpair()
        parent = await ParentEnd.open(ours)
        listening = asyncio.create_task(parent.listen())
        its.sendall(b"\x00\x00\x00\x01\x07")
        with pytest.raises(msgspec.ValidationError):
            await listening
        assert not await parent.ready()
        assert its.recv(1) == b""
        its.close()

    asyncio.run(scenario())
