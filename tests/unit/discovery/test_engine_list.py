"""Which engines there are, in virtual time, with files that are real."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.discovery.engine_list import EngineList
from proxy.discovery.upstreams_file import UpstreamsFile, load_addresses
from proxy.upstream.address import UpstreamAddress
from tests.support.scripted_resolver import ScriptedResolver
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

SETTLED_S = 1.5  # the longest that a change may take, and a little


class Told:
    """What the list has told, as names."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []

    def __call__(self, engines: Sequence[UpstreamAddress]) -> None:
        self.lists.append([str(engine) for engine in engines])


@contextlib.asynccontextmanager
async def listing(
    *urls: str, resolver: ScriptedResolver | None = None, file: Path | None = None
) -> AsyncIterator[Told]:
    told = Told()
    addresses = [UpstreamAddress.parse(url) for url in urls]
    if file is not None:
        addresses += load_addresses(file)
    engines = EngineList(
        addresses,
        told,
        file=UpstreamsFile(file) if file else None,
        resolver=resolver,
        own_host="gpu-box",
    )
    await engines.start()
    try:
        yield told
    finally:
        await engines.stop()


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "upstreams"
    path.write_text("http://10.0.0.1\n")
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def test_what_needs_no_lookup_is_known_before_the_start() -> None:
    async def scenario() -> None:
        urls = ["http://10.0.0.1", "http://vllm", "http://gpu-box:8000", "http://localhost"]
        addresses = [UpstreamAddress.parse(url) for url in urls]
        engines = EngineList(addresses, Told(), resolver=ScriptedResolver(), own_host="gpu-box")
        assert [str(engine) for engine in engines.engines] == [urls[0], *urls[2:]]
        assert EngineList(addresses, Told()).engines == tuple(addresses)

    run(scenario())


def test_the_first_list_is_told_once_when_every_name_has_been_looked_up() -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=["10.0.0.1", "10.0.0.2"], b=None)
        async with listing("http://a", "http://b", resolver=resolver) as told:
            assert now() == 5
            assert told.lists == [["http://a#10.0.0.1", "http://a#10.0.0.2", "http://b"]]

    run(scenario())


def test_a_name_is_one_engine_where_nobody_looks_it_up() -> None:
    async def scenario() -> None:
        async with listing("http://a", "http://b") as told:
            assert told.lists == [["http://a", "http://b"]]

    run(scenario())


def test_a_name_that_changes_is_told_beside_the_others() -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=["10.0.0.1"])
        async with listing("http://10.9.9.9", "http://a", resolver=resolver) as told:
            resolver.answers["a"] = ["10.0.0.1", "10.0.0.2"]
            await asyncio.sleep(12)
            assert told.lists == [
                ["http://10.9.9.9", "http://a"],
                ["http://10.9.9.9", "http://a", "http://a#10.0.0.2"],
            ]

    run(scenario())


def test_engines_come_and_go_with_the_lines_of_the_file(path: Path) -> None:
    async def scenario() -> None:
        async with listing(file=path) as told:
            assert told.lists == [["http://10.0.0.1"]]
            for lines in ("http://10.0.0.1\nhttp://10.0.0.2\n", "http://10.0.0.2\n"):
                write(path, lines)
                await asyncio.sleep(SETTLED_S)
                assert told.lists[-1] == lines.split()
            await asyncio.sleep(60)
            assert len(told.lists) == 3

    run(scenario())


def test_a_bad_line_changes_nothing_and_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with listing(file=path) as told:
            write(path, "http://10.0.0.2\nhttp//10.0.0.3\n")
            await asyncio.sleep(60)
            assert len(told.lists) == 1
            (line,) = caplog.messages
            assert line.startswith(f"{path}: line 2: 'http//10.0.0.3' must start with")
            assert line.endswith("going on with http://10.0.0.1")
            write(path, "http://10.0.0.1\n\n")
            await asyncio.sleep(60)
            assert len(told.lists) == 1
            assert caplog.messages[1:] == [f"{path} is good again, and names the same engines"]

    caplog.set_level(logging.INFO)
    run(scenario())


def test_an_empty_file_is_no_engine_and_is_warned_of(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with listing(file=path) as told:
            write(path, "# none\n")
            await asyncio.sleep(60)
            assert told.lists[1:] == [[]]
            (line,) = caplog.messages
            assert line.startswith(f"{path} names no engine")
            assert "upstream_unavailable" in line

    run(scenario())


def test_a_file_that_is_empty_from_the_start_is_warned_of(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        write(path, "")
        async with listing(file=path) as told:
            await asyncio.sleep(60)
            assert told.lists == [[]]
            assert len(caplog.messages) == 1

    run(scenario())


def test_a_new_line_is_told_once_its_name_has_been_looked_up(path: Path) -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=["10.0.0.8", "10.0.0.9"])
        async with listing(file=path, resolver=resolver) as told:
            write(path, "http://a")
            await asyncio.sleep(SETTLED_S)
            assert told.lists[1:] == [["http://a#10.0.0.8", "http://a#10.0.0.9"]]

    run(scenario())


def test_a_name_that_the_file_forgets_is_looked_up_no_more(path: Path) -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=["10.0.0.9"])
        write(path, "http://a\n")
        async with listing(file=path, resolver=resolver) as told:
            write(path, "http://10.0.0.1\n")
            await asyncio.sleep(SETTLED_S)
            assert told.lists[-1] == ["http://10.0.0.1"]
            asked = len(resolver.asked)
            await asyncio.sleep(60)
            assert len(resolver.asked) == asked

    run(scenario())


def test_a_lookup_that_hangs_does_not_hold_the_other_names_up() -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=["10.0.0.1"], b=["10.0.0.2"])
        async with listing("http://a", "http://b", resolver=resolver) as told:
            resolver.answers["a"] = None
            await asyncio.sleep(6)
            resolver.answers["b"] = ["10.0.0.3", "10.0.0.4"]
            await asyncio.sleep(6)
            assert told.lists[-1] == ["http://a", "http://b#10.0.0.3", "http://b#10.0.0.4"]

    run(scenario())


def test_a_defect_does_not_end_the_watch(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        lists: list[int] = []

        def tell(engines: Sequence[UpstreamAddress]) -> None:
            lists.append(len(engines))
            if len(lists) == 2:
                raise RuntimeError("a defect")

        engines = EngineList(load_addresses(path), tell, file=UpstreamsFile(path))
        await engines.start()
        for count in (2, 3):
            write(path, "\n".join(f"http://10.0.0.{number}" for number in range(count)))
            await asyncio.sleep(SETTLED_S)
        await engines.stop()
        assert lists == [1, 2, 3]
        assert "following it failed" in caplog.text

    run(scenario())


def test_a_start_that_is_given_up_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        resolver = ScriptedResolver(a=None, b=["10.0.0.1"])
        addresses = [UpstreamAddress.parse("http://a"), UpstreamAddress.parse("http://b")]
        told = Told()
        engines = EngineList(addresses, told, resolver=resolver)
        starting = asyncio.create_task(engines.start())
        await settle()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await engines.stop()
        assert told.lists == []

    run(scenario())
