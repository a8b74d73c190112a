"""One gateway in front of several engines: where requests go, and what becomes of them when an
engine fails, comes or goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.port import UpstreamTimeouts
from tests.support.asgi_transport import AsgiClient
from tests.support.engine_cluster import EngineCluster, prompt, with_pollers
from tests.support.gateway_in_memory import gateway, leave
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import (
    Hold,
    after,
    answer,
    error_of,
    responds,
    silent,
    stream,
)
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.asgi_transport import AsgiExchange, Response
    from tests.support.gateway_in_memory import Sluice
    from tests.support.scripted_app import Handler

JSON = [(b"content-type", b"application/json")]
A_POLL_S = 1.1
NO_EFFECT = {"max_in_flight": 4, "max_queue_depth": 100}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> EngineCluster:
    """Four engines that are polled in memory."""
    found = EngineCluster("a", "b", "c", "d")
    with_pollers(found, monkeypatch)
    return found


@contextlib.asynccontextmanager
async def in_front_of(
    cluster: EngineCluster, names: str, **values: object
) -> AsyncIterator[Sluice]:
    """A gateway that has polled these engines once."""
    urls = ",".join(cluster[name].url for name in names)
    given = {**NO_EFFECT, **values}
    polled = gateway(
        cluster[names[0]].app, upstream=cluster, upstream_urls=urls, poll=True, **given
    )
    async with polled as sluice:
        yield sluice


def start(sluice: Sluice, text: str = "", model: str = "m", session: str = "") -> AsgiExchange:
    headers = [*JSON, (b"x-session-id", session.encode())] if session else JSON
    return sluice.start(prompt(text, model), headers=headers)


async def ask(sluice: Sluice, text: str = "", model: str = "m", session: str = "") -> Response:
    return await start(sluice, text, model, session).response()


async def statuses(exchanges: list[AsgiExchange]) -> list[int]:
    return [(await exchange.response()).status for exchange in exchanges]


class TestSpread:
    def test_load_is_spread_by_the_share_of_free_seats(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            for host in cluster.hosts.values():
                host.app.handler = Hold()
            async with in_front_of(cluster, "abc") as sluice:
                held = [start(sluice) for _ in range(9)]
                await settle()
                assert cluster.loads() == {"a": 3, "b": 3, "c": 3, "d": 0}
                held += [start(sluice) for _ in range(3)]
                await settle()
                assert cluster.loads() == {"a": 4, "b": 4, "c": 4, "d": 0}
                await leave(*held)

        run(scenario())

    def test_one_queue_keeps_all_of_them_busy_and_none_above_its_limit(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            cluster["a"].app.handler = after(1.0)
            cluster["b"].app.handler = after(2.0)
            async with in_front_of(cluster, "ab", queue_timeout=60) as sluice:
                exchanges = [start(sluice) for _ in range(48)]
                await asyncio.sleep(7.9)
                assert cluster.loads() == {"a": 4, "b": 4, "c": 0, "d": 0}
                assert await statuses(exchanges) == [200] * 48
                assert cluster.seen() == {"a": 32, "b": 16, "c": 0, "d": 0}
                assert (cluster["a"].app.peak, cluster["b"].app.peak) == (4, 4)

        run(scenario())


class TestFailingEngines:
    def test_the_waiters_of_a_dead_engine_are_served_by_the_others(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for name in "ab":
                cluster[name].app.handler = after(10.0)
            async with in_front_of(cluster, "ab", max_in_flight=1, queue_timeout=100) as sluice:
                exchanges = [start(sluice) for _ in range(6)]
                await asyncio.sleep(1)
                cluster["a"].is_dead = True
                assert await statuses(exchanges) == [200] * 6
                assert cluster.seen() == {"a": 1, "b": 5, "c": 0, "d": 0}
                assert sluice.outcomes() == {"ok": 6}

        run(scenario())

    def test_a_stream_that_breaks_off_with_its_engine_is_not_started_again(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for name in "ab":
                cluster[name].app.handler = stream(2, breaks_off=True)
            async with in_front_of(cluster, "ab") as sluice:
                exchange = start(sluice)
                await exchange.ended()
                assert sum(cluster.seen().values()) == 1
                assert sluice.outcomes() == {"upstream_error": 1}

        run(scenario())

    def test_a_request_that_meets_a_dead_engine_is_answered_by_another_once(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            async with in_front_of(cluster, "abcd") as sluice:
                for name in "abc":
                    cluster[name].refuses_requests = True
                answers = [await ask(sluice) for _ in range(20)]
                assert [one.status for one in answers] == [200] * 20
                assert cluster.seen() == {"a": 0, "b": 0, "c": 0, "d": 20}
                assert len(cluster.tried) <= 23, "each that failed was left alone from then on"
                assert sluice.outcomes() == {"ok": 20}
                assert {record.upstream for record in sluice.records} == {cluster["d"].url}

        run(scenario())

    def test_an_engine_of_bad_answers_is_out_and_comes_back_through_one_request(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            cluster["a"].app.handler = responds(500)
            async with in_front_of(cluster, "ab", max_in_flight=20, queue_timeout=100) as sluice:
                answers = [await ask(sluice) for _ in range(60)]
                assert [one.status for one in answers].count(500) == 10
                assert cluster.seen()["a"] == 10
                cluster["a"].app.handler = probe = Hold()
                cluster["b"].app.handler = Hold()
                exchanges = [start(sluice) for _ in range(50)]
                await asyncio.sleep(2 * A_POLL_S)
                assert cluster.loads() == {"a": 1, "b": 20, "c": 0, "d": 0}, "one at a time"
                probe.release()
                cluster["a"].app.handler = later = Hold()
                await settle()
                assert cluster.loads()["a"] == 2, "and then a tenth, which grows"
                await asyncio.sleep(6)
                assert 8 <= cluster.loads()["a"] <= 14
                await asyncio.sleep(6)
                assert cluster.loads()["a"] == 20
                later.release()
                await leave(*exchanges)

        run(scenario())

    @pytest.mark.parametrize("works", [stream(10_000, interval_s=1.0), silent])
    def test_however_many_answers_our_total_timeout_cuts_no_engine_is_taken_out(
        self, cluster: EngineCluster, works: Handler
    ) -> None:
        """How long they are is up to clients; without streaming they are silent till then."""

        async def scenario() -> None:
            for host in cluster.hosts.values():
                host.app.handler = works
                host.wire = InMemoryUpstream(host.app, UpstreamTimeouts(total_s=5))
            async with in_front_of(cluster, "abc", max_in_flight=16) as sluice:
                began_at = now()
                await statuses([start(sluice) for _ in range(40)])
                assert now() == began_at + 5
                assert sluice.outcomes() == {"upstream_error": 40}
                page = await AsgiClient(sluice.application.admin).request("GET", b"/readyz")
                assert b"taken out" not in page.body
                for host in cluster.hosts.values():
                    host.app.handler = answer
                assert await statuses([start(sluice) for _ in range(48)]) == [200] * 48
                assert min(cluster.seen()[name] for name in "abc") >= 13 + 16

        run(scenario())

    def test_while_it_is_out_it_is_not_ready_and_says_why(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            async with in_front_of(cluster, "ab") as sluice:
                cluster["a"].refuses_requests = True
                for _ in range(10):
                    await ask(sluice)
                assert (await sluice.get(b"/readyz")).status == 200
                page = await AsgiClient(sluice.application.admin).request("GET", b"/readyz")
                reason = json.loads(page.body)["engines"][cluster["a"].url]["reason"]
                assert reason == "taken out for 1 s: connection refused"

        run(scenario())

    def test_one_that_still_fails_is_tried_ever_more_seldom(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            async with in_front_of(cluster, "ab") as sluice:
                cluster["a"].refuses_requests = True
                for _ in range(600):
                    assert (await ask(sluice)).status == 200
                    await asyncio.sleep(0.1)
                assert 4 <= cluster.tried.count("a") <= 7  # at 0, 1, 3, 7, 15, 31 s or soon after

        run(scenario())

    def test_the_last_engine_is_never_taken_out(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            cluster["b"].is_dead = True
            cluster["a"].app.handler = responds(500)
            async with in_front_of(cluster, "ab") as sluice:
                answers = [await ask(sluice) for _ in range(50)]
                assert [one.status for one in answers] == [500] * 50
                cluster["a"].refuses_requests = True
                answers = [await ask(sluice) for _ in range(5)]
                assert [error_of(one.body)["code"] for one in answers] == ["upstream_connect"] * 5
                cluster["a"].refuses_requests = False
                cluster["a"].app.handler = answer
                assert (await ask(sluice)).status == 200

        run(scenario())

    def test_one_that_is_out_serves_as_soon_as_it_is_the_last(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            async with in_front_of(cluster, "ab") as sluice:
                cluster["a"].refuses_requests = True
                for _ in range(50):
                    await ask(sluice)
                    await asyncio.sleep(1)
                cluster["a"].refuses_requests = False
                cluster["b"].is_dead = True
                await asyncio.sleep(2 * A_POLL_S)
                answers = [await ask(sluice) for _ in range(3)]
                assert [one.status for one in answers] == [200] * 3

        run(scenario())

    def test_one_that_is_out_takes_over_at_once_when_the_last_cannot_be_reached(
        self, cluster: EngineCluster
    ) -> None:
        """Engines that are restarted one after the other, faster than anybody polls them."""

        async def scenario() -> None:
            async with in_front_of(cluster, "ab") as sluice:
                for gone, back in (("a", "b"), ("b", "a"), ("a", "b")):
                    cluster[gone].refuses_requests = True
                    cluster[back].refuses_requests = False
                    answers = [await ask(sluice) for _ in range(10)]
                    assert [one.status for one in answers] == [200] * 10
                    assert cluster.tried[-1] == back

        run(scenario())


class TestAffinity:
    def test_a_session_stays_with_one_engine(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            async with in_front_of(cluster, "abcd", affinity="session") as sluice:
                homes: dict[str, set[str]] = {}
                for turn in range(5):
                    for number in range(40):
                        session = f"s{number}"
                        await ask(sluice, f"turn {turn}", session=session)
                        homes.setdefault(session, set()).add(cluster.tried[-1])
                assert all(len(used) == 1 for used in homes.values())
                assert set.union(*homes.values()) == set("abcd")

        run(scenario())

    def test_prompts_that_begin_alike_meet_in_one_engine(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            given = {"affinity": "prefix", "affinity_prefix_bytes": 100}
            async with in_front_of(cluster, "abcd", **given) as sluice:
                for document in range(20):
                    beginning = f"document {document} " * 20
                    used = set()
                    for question in range(5):
                        await ask(sluice, f"{beginning} question {question}")
                        used.add(cluster.tried[-1])
                    assert len(used) == 1

        run(scenario())

    def test_what_overflows_goes_on_to_the_next_and_nobody_carries_more_than_its_part(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for host in cluster.hosts.values():
                host.app.handler = Hold()
            given = {"affinity": "session", "max_in_flight": 16}
            async with in_front_of(cluster, "abcd", **given) as sluice:
                held = [start(sluice, session="everybody's") for _ in range(32)]
                await settle()
                loads = sorted(cluster.loads().values())
                assert sum(loads) == 32
                assert loads[-1] <= math.ceil(1.25 * 32 / 4)
                assert sluice.queue_depth == 0
                held += [start(sluice, session="everybody's") for _ in range(32)]
                await settle()
                assert set(cluster.loads().values()) == {16}
                await leave(*held)

        run(scenario())

    def test_only_the_sessions_of_an_engine_that_dies_go_elsewhere_and_they_come_back(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            async def homes() -> dict[str, str]:
                found = {}
                for number in range(40):
                    assert (await ask(sluice, session=f"s{number}")).status == 200
                    found[f"s{number}"] = cluster.tried[-1]
                return found

            async with in_front_of(cluster, "abcd", affinity="session") as sluice:
                before = await homes()
                cluster["b"].is_dead = True
                await asyncio.sleep(A_POLL_S)
                without = await homes()
                moved = {session for session in before if without[session] != before[session]}
                assert moved == {session for session, home in before.items() if home == "b"}
                cluster["b"].is_dead = False
                await asyncio.sleep(12)
                assert await homes() == before

        run(scenario())


class TestModels:
    def test_a_full_queue_of_one_model_refuses_nobody_of_the_other(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            cluster["a"].models, cluster["b"].models = ("m1",), ("m2",)
            cluster["a"].app.handler = Hold()
            given = {"max_in_flight": 2, "max_queue_depth": 6}
            async with in_front_of(cluster, "ab", **given) as sluice:
                held = [start(sluice, model="m1") for _ in range(5)]
                await settle()
                refused = await ask(sluice, model="m1")
                assert (refused.status, error_of(refused.body)["code"]) == (503, "queue_full")
                answers = [await ask(sluice, model="m2") for _ in range(5)]
                assert [one.status for one in answers] == [200] * 5
                assert cluster.seen() == {"a": 2, "b": 5, "c": 0, "d": 0}
                await leave(*held)

        run(scenario())

    def test_the_death_of_one_models_engine_is_no_matter_of_the_others(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            cluster["a"].models, cluster["b"].models = ("m1",), ("m2",)
            async with in_front_of(cluster, "ab") as sluice:
                cluster["a"].is_dead = True
                await asyncio.sleep(A_POLL_S)
                refused = await ask(sluice, model="m1")
                said = error_of(refused.body)
                assert (refused.status, said["code"]) == (503, "upstream_unavailable")
                assert "connection refused" in said["message"]
                assert cluster["a"].url not in said["message"], "a client is not told where"
                assert (await ask(sluice, model="m2")).status == 200

        run(scenario())

    def test_an_adapter_that_is_loaded_on_one_engine_after_the_other_loses_nobody(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for name in "ab":
                cluster[name].app.handler = after(4.0)
            async with in_front_of(cluster, "ab", max_in_flight=1, queue_timeout=100) as sluice:
                exchanges = [start(sluice) for _ in range(8)]
                for name in "ab":
                    await asyncio.sleep(6)
                    cluster[name].models = ("m", "adapter")
                await asyncio.sleep(12)
                assert (await ask(sluice, model="adapter")).status == 200
                assert await statuses(exchanges) == [200] * 8

        run(scenario())

    def test_an_engine_that_comes_back_with_another_model_gets_its_own_requests_only(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for name in "ab":
                cluster[name].app.handler = after(3.0)
            async with in_front_of(cluster, "ab", max_in_flight=2, queue_timeout=100) as sluice:
                cluster["b"].is_dead = True
                await asyncio.sleep(A_POLL_S)
                exchanges = [start(sluice) for _ in range(8)]
                cluster["b"].is_dead, cluster["b"].models = False, ("other",)
                await asyncio.sleep(A_POLL_S)
                assert cluster.loads()["b"] == 0
                assert (await ask(sluice, model="other")).status == 200
                assert await statuses(exchanges) == [200] * 8
                assert cluster.seen() == {"a": 8, "b": 1, "c": 0, "d": 0}

        run(scenario())


class TestComingAndGoing:
    def test_engines_are_replaced_one_after_the_other_under_load_and_nobody_is_lost(
        self, cluster: EngineCluster
    ) -> None:
        async def scenario() -> None:
            for host in cluster.hosts.values():
                host.app.handler = after(2.0)
            async with in_front_of(cluster, "ab", max_in_flight=2, queue_timeout=100) as sluice:
                exchanges = []
                for names in ("ab", "bc", "cd", "d", "da"):
                    sluice.application.fleet.set(
                        [UpstreamAddress.parse(cluster[name].url) for name in names]
                    )
                    exchanges += [start(sluice) for _ in range(8)]
                    await asyncio.sleep(5)
                assert await statuses(exchanges) == [200] * 40
                assert sum(cluster.seen().values()) == 40
                assert max(host.app.peak for host in cluster.hosts.values()) == 2
                assert sluice.outcomes() == {"ok": 40}
                await asyncio.sleep(10)

        run(scenario())

    def test_one_that_is_removed_finishes_what_it_has_begun(self, cluster: EngineCluster) -> None:
        async def scenario() -> None:
            for name in "ab":
                cluster[name].app.handler = stream(events=50, interval_s=1.0)
            async with in_front_of(cluster, "ab") as sluice:
                exchanges = [start(sluice) for _ in range(8)]
                await settle()
                sluice.application.fleet.set([UpstreamAddress.parse(cluster["b"].url)])
                assert await statuses(exchanges) == [200] * 8
                assert cluster.seen()["a"] == 4
                assert sluice.outcomes() == {"ok": 8}

        run(scenario())
