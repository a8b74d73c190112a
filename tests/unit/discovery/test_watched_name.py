"""A host name that is looked up again and again, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from proxy.discovery.watched_name import WatchedName
from proxy.upstream.address import UpstreamAddress
from tests.support.scripted_resolver import ScriptedResolver
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

PLAIN = "http://vllm:8000"
ONE, TWO = f"{PLAIN}#10.0.0.1", f"{PLAIN}#10.0.0.2"
GONE = OSError(-2, "Name or service not known")


class Watching:
    """A watched name, and the moments at which its engines changed."""

    def __init__(self, resolver: ScriptedResolver, *, by_address: bool = False) -> None:
        self.resolver = resolver
        self.changes: list[float] = []
        url = UpstreamAddress.parse(PLAIN)
        self.name = WatchedName(url, resolver, 5.0, self._changed, by_address=by_address)

    def _changed(self) -> None:
        self.changes.append(now())

    @property
    def engines(self) -> list[str]:
        return [str(engine) for engine in self.name.engines]


@contextlib.asynccontextmanager
async def watching(
    answer: list[str] | OSError | None, *, by_address: bool = False
) -> AsyncIterator[Watching]:
    watched = Watching(ScriptedResolver(vllm=answer), by_address=by_address)
    await watched.name.start()
    try:
        yield watched
    finally:
        await watched.name.stop()


def test_the_engines_are_known_when_start_returns() -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.2", "10.0.0.1"]) as watched:
            assert watched.engines == [ONE, TWO]
            assert (now(), watched.changes) == (0, [])

    run(scenario())


def test_a_change_is_seen_at_the_next_lookup() -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.1"]) as watched:
            await asyncio.sleep(7)
            watched.resolver.answers["vllm"] = ["10.0.0.1", "10.0.0.2"]
            await asyncio.sleep(10)
            assert watched.engines == [PLAIN, TWO]
            assert watched.changes == [10]

    run(scenario())


def test_the_same_addresses_in_another_order_are_no_change() -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.1", "10.0.0.2"]) as watched:
            watched.resolver.answers["vllm"] = ["10.0.0.2", "10.0.0.1"]
            await asyncio.sleep(20)
            assert watched.changes == []

    run(scenario())


def test_a_failed_or_empty_lookup_keeps_the_last_engines_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.1", "10.0.0.2"]) as watched:
            for answer in (GONE, [], GONE):
                caplog.clear()
                watched.resolver.answers["vllm"] = answer
                await asyncio.sleep(30)
                assert watched.engines == [ONE, TWO]
                (line,) = caplog.messages
                assert "going on with 10.0.0.1, 10.0.0.2" in line
            assert "Name or service not known" in line
            watched.resolver.answers["vllm"] = ["10.0.0.1", "10.0.0.2"]
            await asyncio.sleep(30)
            assert caplog.messages[1:] == [f"{PLAIN}: its host can be looked up again"]
            assert watched.changes == []

    caplog.set_level(logging.INFO)
    run(scenario())


def test_a_name_that_is_not_known_at_the_start_is_one_engine_until_it_is() -> None:
    async def scenario() -> None:
        async with watching(GONE) as watched:
            assert watched.engines == [PLAIN]
            assert watched.name.engines[0].connects_to == "vllm"
            watched.resolver.answers["vllm"] = ["10.0.0.1", "10.0.0.2"]
            await asyncio.sleep(5.5)
            assert watched.engines == [ONE, TWO]

    run(scenario())


def test_by_address_a_name_that_is_not_known_is_nobody() -> None:
    """Another gateway may know the address, and count its seats under the name with it."""

    async def scenario() -> None:
        async with watching(GONE, by_address=True) as watched:
            assert watched.engines == []
            watched.resolver.answers["vllm"] = ["10.0.0.1"]
            await asyncio.sleep(5.5)
            assert watched.engines == [ONE]

    run(scenario())


def test_name_servers_that_do_not_answer_hold_the_start_up_for_5_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with watching(None) as watched:
            assert now() == 5
            assert watched.engines == [PLAIN]
            assert "no answer within 5 s" in caplog.text

    run(scenario())


def test_what_a_name_stands_for_is_logged_with_whose_the_limit_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.1"]):
            assert caplog.messages == [f"{PLAIN} is one engine, at 10.0.0.1"]
        caplog.clear()
        async with watching(["10.0.0.1", "10.0.0.2"]):
            (line,) = caplog.messages
            assert line.startswith(f"{PLAIN} is 2 engines")
            assert "10.0.0.1, 10.0.0.2; the limit is for each of them" in line

    caplog.set_level(logging.INFO)
    run(scenario())


def test_a_defect_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with watching(["10.0.0.1"]) as watched:
            watched.resolver.answers["vllm"] = ["not an address"]
            await asyncio.sleep(5.5)
            assert "looking it up failed" in caplog.text
            watched.resolver.answers["vllm"] = ["10.0.0.2"]
            await asyncio.sleep(5.5)
            assert [engine.ip for engine in watched.name.engines] == ["10.0.0.2"]

    run(scenario())


def test_stopping_one_that_never_started_is_harmless() -> None:
    async def scenario() -> None:
        await Watching(ScriptedResolver(vllm=[])).name.stop()

    run(scenario())
