"""An engine that takes connections and answers nothing: stopped, swapped out, or hung."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.support.engine_cluster import EngineCluster, prompt, with_pollers
from tests.support.engine_transport import garbage, ok
from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import answer, error_of, silent, stream
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support.gateway_in_memory import Sluice
    from tests.support.scripted_app import Call

SEATS = 2
# Half a minute, and two rounds of questions that nobody answers: one at either end.
SEEN_WITHIN_S = 50.0


@asynccontextmanager
async def standing(
    cluster: EngineCluster, monkeypatch: pytest.MonkeyPatch, queue: int = 4, seats: int = SEATS
) -> AsyncIterator[Sluice]:
    with_pollers(cluster, monkeypatch)
    async with gateway(
        cluster["one"].app,
        upstream=cluster,
        upstream_urls=cluster.urls,
        poll=True,
        max_in_flight=seats,
        max_queue_depth=queue,
        queue_timeout=600,
    ) as sluice:
        await asyncio.sleep(1)
        yield sluice


def hang(cluster: EngineCluster, name: str) -> None:
    cluster[name].is_silent = True
    cluster[name].app.handler = silent


async def late_stream(call: Call) -> None:
    await asyncio.sleep(60)
    await stream(60, 1.0)(call)


def test_a_silent_engine_refuses_newcomers_and_those_who_wait_and_keeps_what_runs_in_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            held = await sluice.hold_seats(SEATS + 1)
            waiting = held.pop()
            evicted = await waiting.response()
            assert now() <= SEEN_WITHIN_S
            began, newcomer = now(), await sluice.ask()
            assert now() == began
            for refusal in (evicted, newcomer):
                assert refusal.status == 503
                error = error_of(refusal.body)
                assert error["code"] == "upstream_stalled"
                assert "neither GET /health nor a request" in error["message"]
                assert refusal.header("x-should-retry") == "false"
            assert sluice.in_flight == SEATS
            assert sluice.metric("sluice_upstream_stalled") == 1
            (line,) = [line for line in caplog.messages if "is stalled" in line]
            assert f"{SEATS} of our seats are taken in it" in line
            await leave(*held)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_nobody_is_refused_in_the_first_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            held = await sluice.hold_seats(SEATS + 1)
            await asyncio.sleep(29)
            assert sluice.sheds() == {}
            assert sluice.queue_depth == 1
            await leave(*held)

    run(scenario())


def test_requests_pass_again_within_a_round_once_it_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            held = await sluice.hold_seats(SEATS)
            await asyncio.sleep(SEEN_WITHIN_S)
            await leave(*held)
            await asyncio.sleep(600)
            assert (await sluice.ask()).status == 503  # also when all its clients have given up
            cluster["one"].is_silent, cluster["one"].app.handler = False, answer
            await asyncio.sleep(10)
            assert (await sluice.ask()).status == 200
            assert any("answers again, after" in line for line in caplog.messages)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_one_whose_metrics_page_is_reset_while_its_health_check_hangs_is_stalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            cluster["one"].pages["/metrics"] = garbage
            held = await sluice.hold_seats(SEATS)
            await asyncio.sleep(SEEN_WITHIN_S)
            assert sluice.metric("sluice_upstream_stalled") == 1
            await leave(*held)

    run(scenario())


def test_one_that_wakes_between_two_questions_is_back_and_the_log_says_by_what_and_after_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was said to be ready for want of an answer, and its silence to be shorter than it was."""

    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            held = await sluice.hold_seats(SEATS)
            while not sluice.metric("sluice_upstream_stalled"):
                await asyncio.sleep(0.1)
            began = now()
            cluster["one"].pages["/metrics"] = ok()
            while sluice.metric("sluice_upstream_stalled"):
                await asyncio.sleep(0.1)
            assert now() < began + 7
            back = [line for line in caplog.messages if " is ready: " in line][-1]
            assert back.endswith("is ready: it answers GET /metrics")
            (again,) = [line for line in caplog.messages if "answers again" in line]
            silent_s = int(again.rpartition("after ")[2].removesuffix(" s"))
            assert abs(silent_s - now()) < 3, "since the first question that it did not answer"
            await leave(*held)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_one_that_is_too_busy_for_its_health_check_is_not_stalled_while_bytes_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A piece every 25 s, of one of the answers; the other gets none for ten minutes."""

    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            mute = await sluice.hold_seats(1)
            cluster["one"].app.handler = stream(24, 25.0)
            going = sluice.start({"stream": True})
            await asyncio.sleep(590)
            assert sluice.metric("sluice_upstream_stalled") == 0
            assert sluice.sheds() == {}
            assert sum("it is busy" in line for line in caplog.messages) == 1
            assert (await going.response()).body.endswith(b"[DONE]\n\n")
            await leave(*mute)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_one_that_holds_only_requests_without_a_seat_is_seen_and_gets_no_more_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one", "two")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            cluster["two"].app.handler = silent
            held = [sluice.start(target=b"/tokenize") for _ in range(6)]
            await asyncio.sleep(SEEN_WITHIN_S)
            assert cluster.loads() == {"one": 3, "two": 3}
            for host in cluster.hosts.values():
                assert sluice.metric("sluice_open_requests", upstream=host.url) == 3
            (line,) = [line for line in caplog.messages if "is stalled" in line]
            assert "beside 3 of our requests that take none" in line
            cluster["two"].app.handler = answer
            answers = [await sluice.ask(target=b"/tokenize") for _ in range(20)]
            assert {one.status for one in answers} == {200}
            assert cluster.seen()["one"] == 3
            await leave(*held)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_one_that_gives_a_request_bytes_is_back_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            cluster["one"].app.handler = late_stream
            going = sluice.start({"stream": True})
            await asyncio.sleep(SEEN_WITHIN_S)
            assert sluice.metric("sluice_upstream_stalled") == 1
            await asyncio.sleep(60 - SEEN_WITHIN_S)  # the first piece is there
            await asyncio.sleep(1.1)
            assert sluice.metric("sluice_upstream_stalled") == 0
            last = [line for line in caplog.messages if " is ready: " in line][-1]
            assert last.endswith("is ready: bytes of an answer have come from it")
            await leave(going)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())


def test_its_seats_open_second_by_second_however_long_it_leaves_its_poller_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They opened in steps of eight seconds, in which no question was answered."""

    async def scenario() -> None:
        cluster = EngineCluster("one")
        async with standing(cluster, monkeypatch, seats=40) as sluice:
            hang(cluster, "one")
            cluster["one"].app.handler = late_stream
            going = sluice.start({"stream": True})
            await asyncio.sleep(60)
            while sluice.metric("sluice_upstream_stalled"):
                await asyncio.sleep(0.1)
            open_seats = []
            for _ in range(12):
                open_seats.append(sluice.metric("sluice_concurrency_limit"))
                await asyncio.sleep(1)
            assert open_seats[0] == 4
            steps = [after - before for before, after in itertools.pairwise(open_seats)]
            assert min(steps) >= 0
            assert max(steps) <= 2 * 0.09 * 40 + 1, "none, or one and the next"
            assert open_seats[-1] == 40
            await leave(going)

    run(scenario())


def test_others_carry_the_load_and_no_newcomer_falls_into_the_silent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of its clients that gives up would else make room in it for the next victim."""

    async def scenario() -> None:
        cluster = EngineCluster("one", "two")
        async with standing(cluster, monkeypatch) as sluice:
            hang(cluster, "one")
            cluster["two"].app.handler = silent
            held = [sluice.start(prompt("hello")) for _ in range(2 * SEATS)]
            await asyncio.sleep(SEEN_WITHIN_S)
            cluster["two"].app.handler = answer
            await leave(*held)
            seen = cluster.seen()
            answers = [await sluice.ask(prompt("hello")) for _ in range(20)]
            assert {one.status for one in answers} == {200}
            assert cluster.seen()["one"] == seen["one"] == SEATS

    run(scenario())
