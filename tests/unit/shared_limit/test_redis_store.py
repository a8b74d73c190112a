"""Against a server that says what the test wants; tests/conformance has a real one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.shared_limit import redis_store
from proxy.shared_limit.redis_store import RedisStore
from proxy.shared_limit.store import Granted, Renewal, StoreAwayError, StoreRefusedError
from tests.support.fake_redis import FakeRedis, bulk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RENEWAL = Renewal(gateway="a", seq=1, keep=0, want=1, widest=1, waited_ms=0, limit=8)
GRANTED = Granted(held=1, target=8, limit=8, members=("a",), overdue={}, in_grace=False)


def with_server(
    scenario: Callable[[FakeRedis, RedisStore], Awaitable[None]], query: str = ""
) -> None:
    async def main() -> None:
        fake = FakeRedis()
        await fake.listen()
        store = RedisStore(f"redis://127.0.0.1:{fake.port}{query}", "team", "a")
        try:
            await scenario(fake, store)
        finally:
            await store.aclose()
            await fake.until_connections(0)
            fake.close()

    asyncio.run(main())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "_ANSWERS_WITHIN_S", 0.1)


def test_its_connection_bears_the_names_of_cluster_and_gateway() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        assert [b"CLIENT", b"SETNAME", b"sluice:team:a"] in fake.asked

    with_server(scenario)


def test_all_engines_are_renewed_in_one_go_on_one_connection_each_under_its_own_key() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        asked = {"http://one": RENEWAL, "http://two": RENEWAL}
        assert await store.renew(asked) == {"http://one": GRANTED, "http://two": GRANTED}
        await store.renew(asked)
        scripts = [words for words in fake.asked if words[0] == b"EVALSHA"]
        assert [words[3] for words in scripts[:2]] == [
            b"sluice:lease:{team}:http://one",
            b"sluice:lease:{team}:http://two",
        ]
        assert {(words[1], words[4]) for words in scripts} == {(b"5ca1ab1e", b"abc123")}
        assert (len(scripts), fake.opened) == (4, 1)

    with_server(scenario)


@pytest.mark.usefixtures("impatient")
def test_the_connection_to_a_silent_store_stays_open_until_another_one_stands() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.says[b"EVALSHA"] = None
        with pytest.raises(StoreAwayError, match="no answer within"):
            await store.renew({"engine": RENEWAL})
        fake.says[b"INFO"] = None
        for _ in range(2):
            with pytest.raises(StoreAwayError, match="no answer within"):
                await store.renew({"engine": RENEWAL})
        await fake.until_connections(1)
        fake.says.clear()
        assert await store.renew({"engine": RENEWAL}) == {"engine": GRANTED}
        await fake.until_connections(1)

    with_server(scenario)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (b"EVALSHA", b"-NOPERM no permissions to run the 'evalsha' command\r\n"),
        (b"INFO", b"-NOPERM no permissions to run the 'info' command\r\n"),
        (b"AUTH", b"-WRONGPASS invalid username-password pair\r\n"),
        (b"CLIENT", b"-ERR max number of clients reached\r\n"),
    ],
)
def test_a_store_that_will_not_have_us_is_not_away(command: bytes, answer: bytes) -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        fake.says[command] = answer
        with pytest.raises(StoreRefusedError):
            await store.renew({"engine": RENEWAL})

    with_server(scenario, "?password=secret")


@pytest.mark.parametrize(
    "answer",
    [
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-NOSCRIPT No matching script.\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        bulk(b"not json"),
    ],
)
def test_after_any_other_fault_it_begins_with_a_new_connection(answer: bytes) -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        fake.says[b"EVALSHA"] = answer
        with pytest.raises(StoreAwayError):
            await store.renew({"engine": RENEWAL})
        fake.says.clear()
        assert await store.renew({"engine": RENEWAL}) == {"engine": GRANTED}

    with_server(scenario)


def test_scripts_that_were_flushed_are_no_trouble() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.once[b"EVALSHA"] = b"-NOSCRIPT No matching script.\r\n"
        assert await store.renew({"engine": RENEWAL}) == {"engine": GRANTED}
        assert fake.opened == 1

    with_server(scenario)


def test_an_error_about_the_leases_names_their_key() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        fake.says[b"EVALSHA"] = b"-WRONGTYPE Operation against another kind of value\r\n"
        with pytest.raises(StoreAwayError, match=r"WRONGTYPE .* \(key sluice:lease:\{team\}:one\)"):
            await store.renew({"one": RENEWAL})

    with_server(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        b"-NOREPLICAS Not enough good replicas to write.\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-MISCONF Errors writing to the RDB file.\r\n",
        b"-NOPERM no permissions to run the 'evalsha' command\r\n",
    ],
)
def test_a_store_that_answers_with_errors_goes_on_seeing_that_the_gateway_lives(
    answer: bytes,
) -> None:
    """Or it would give the gateway's seats to others as soon as it can write again."""

    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.fewest = fake.connections
        fake.says[b"EVALSHA"] = answer
        for _ in range(3):
            with pytest.raises((StoreAwayError, StoreRefusedError)):
                await store.renew({"engine": RENEWAL})
        fake.says.clear()
        assert await store.renew({"engine": RENEWAL}) == {"engine": GRANTED}
        await fake.until_connections(1)
        assert fake.fewest == 1

    with_server(scenario)


def test_a_store_that_nobody_can_reach_is_away() -> None:
    async def main() -> None:
        store = RedisStore("redis://127.0.0.1:1", "team", "a")
        with pytest.raises(StoreAwayError):
            await store.renew({"engine": RENEWAL})
        await store.aclose()

    asyncio.run(main())


def test_who_is_cancelled_leaves_no_answer_for_the_next_to_read() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.says[b"EVALSHA"] = None
        task = asyncio.create_task(store.renew({"engine": RENEWAL}))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        fake.says.clear()
        await store.renew({"engine": RENEWAL})
        await fake.until_connections(1)
        assert fake.opened == 2

    with_server(scenario)


def test_the_connected_are_those_of_its_cluster() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.says[b"CLIENT"] = bulk(
            b"id=3 addr=1.2.3.4:5 name=sluice:team:a db=0\n"
            b"id=4 addr=1.2.3.4:6 name= db=0\n"
            b"id=5 addr=1.2.3.4:7 name=sluice:other:b db=0\n"
            b"id=6 addr=1.2.3.4:8 name=sluice:team:c db=0\n"
        )
        assert await store.connected() == {"a", "c"}

    with_server(scenario)


def test_where_connections_may_not_be_listed_nobody_knows_them_and_all_else_goes_on() -> None:
    async def scenario(fake: FakeRedis, store: RedisStore) -> None:
        await store.renew({"engine": RENEWAL})
        fake.says[b"CLIENT"] = b"-NOPERM no permissions to run the 'client|list' command\r\n"
        assert await store.connected() is None
        await store.renew({"engine": RENEWAL})
        assert fake.opened == 1

    with_server(scenario)


def test_a_url_that_means_no_redis_is_refused() -> None:
    with pytest.raises(ValueError, match="must be redis://"):
        RedisStore("http://127.0.0.1", "team", "a")
