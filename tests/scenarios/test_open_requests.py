"""What takes no seat is bounded all the same: an engine may sit on it for as long as it likes."""

from __future__ import annotations

import asyncio

from tests.support.engine_cluster import EngineCluster
from tests.support.gateway_in_memory import Sluice, gateway, leave
from tests.support.scripted_app import Call, Hold, ScriptedApp, answer, error_of
from tests.support.virtual_time import now, run, settle

TOKENIZE = b"/tokenize"
FEWEST = 128


async def statuses_of(sluice: Sluice, count: int, body: bytes) -> list[int]:
    exchanges = [sluice.start(body, target=TOKENIZE) for _ in range(count)]
    return [(await exchange.response()).status for exchange in exchanges]


def test_no_more_are_at_the_engine_than_there_are_seats() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=130, max_queue_depth=4) as sluice:
            held = [sluice.start(target=TOKENIZE) for _ in range(130)]
            await settle()
            assert engine.in_flight == 130
            surplus = [sluice.start([b"{", 10.0, b"}"], target=TOKENIZE) for _ in range(30)]
            refusals = [await exchange.response() for exchange in surplus]
            assert {refusal.status for refusal in refusals} == {503}
            assert now() == 0, "refused before its body has come"
            error = error_of(refusals[0].body)
            assert error["code"] == refusals[0].header("x-sluice-reason") == "queue_full"
            assert "130 requests that take no seat" in error["message"]
            assert 1 <= int(refusals[0].header("retry-after") or "") <= 55
            assert refusals[0].header("x-should-retry") in ("true", "false")
            assert engine.in_flight == 130
            engine.handler = answer
            assert (await sluice.ask()).status == 200, "seats are for whom they are for"
            assert (await sluice.get(b"/v1/models")).status == 200
            assert (await sluice.get(b"/version")).status == 200
            hold.release()
            assert {(await exchange.response()).status for exchange in held} == {200}
            assert sluice.outcomes() == {"ok": 130 + 3, "shed": 30}
            assert sluice.sheds() == {"queue_full": 30}

    run(scenario())


def test_each_that_is_broken_off_makes_room_for_exactly_one() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=1, max_queue_depth=0) as sluice:
            places = sluice.application.public.open_places
            for _ in range(3):
                held = [sluice.start(target=TOKENIZE) for _ in range(FEWEST)]
                await settle()
                assert (places.taken, engine.in_flight) == (FEWEST, FEWEST)
                assert await statuses_of(sluice, 1, b"{}") == [503]
                await leave(*held)
                assert (places.taken, places.held_bytes) == (0, 0)
            assert sluice.outcomes() == {"abandoned": 3 * FEWEST, "shed": 3}

    run(scenario())


def test_those_that_are_uploaded_together_are_counted_once_more_when_they_are_whole() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(Hold())
        async with gateway(engine, max_in_flight=1, max_queue_depth=0) as sluice:
            uploads = [sluice.start([b"{", 1.0, b"}"], target=TOKENIZE) for _ in range(FEWEST + 4)]
            await asyncio.sleep(2)
            assert engine.in_flight == FEWEST
            await leave(*uploads)
            assert sluice.outcomes() == {"abandoned": FEWEST, "shed": 4}

    run(scenario())


def test_their_bodies_hold_half_of_what_uploads_may_and_leave_the_rest_to_others() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(
            engine, max_in_flight=1, max_queue_depth=1, max_body_bytes=1000
        ) as sluice:
            intake = sluice.application.public.intake
            held = sluice.start(b" " * 900, target=TOKENIZE)
            await settle()
            assert await statuses_of(sluice, 5, b" " * 900) == [503] * 5
            refusal = await sluice.ask(b" " * 900, target=TOKENIZE)
            assert "1000 bytes" in error_of(refusal.body)["message"]
            assert intake.buffered_bytes == 900
            engine.handler = answer
            pieces: list[bytes | float] = [b" " * 900, 1.0, b"{}"]
            assert (await sluice.ask(pieces)).status == 200
            assert (await sluice.ask(b" " * 100, target=TOKENIZE)).status == 200
            hold.release()
            assert (await held.response()).status == 200
            assert intake.buffered_bytes == 0
            assert sluice.sheds() == {"queue_full": 6}

    run(scenario())


def test_a_crowd_on_an_engine_of_few_seats_is_served() -> None:
    """Fifty users of eight seats met a bound of 16, and 425 of 1,000 calls were refused."""

    async def scenario() -> None:
        async def quick(call: Call) -> None:
            await asyncio.sleep(0.05)
            await answer(call)

        async def user(sluice: Sluice) -> None:
            for _ in range(20):
                assert (await sluice.ask(target=TOKENIZE)).status == 200
                await asyncio.sleep(0.1)

        async with gateway(ScriptedApp(quick), max_in_flight=8) as sluice:
            await asyncio.gather(*(user(sluice) for _ in range(50)))
            assert sluice.outcomes() == {"ok": 1000}

    run(scenario())


def test_refused_ones_take_no_retry_ticket_from_those_who_wait_for_seats() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(Hold())
        async with gateway(engine, max_in_flight=1, max_queue_depth=0) as sluice:
            held = [sluice.start(target=TOKENIZE) for _ in range(FEWEST)]
            held += await sluice.hold_seats(1)
            told = [await sluice.ask(target=TOKENIZE) for _ in range(60)]
            assert told[0].header("x-should-retry") == "true"
            assert told[-1].header("x-should-retry") == "false"
            for _ in range(10):
                assert (await sluice.ask()).header("x-should-retry") == "true"
            await leave(*held)

    run(scenario())


def test_that_there_is_no_engine_is_told_also_where_a_leaving_one_has_all_places() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with gateway(ScriptedApp(hold), max_in_flight=1, max_queue_depth=0) as sluice:
            held = [sluice.start(target=TOKENIZE) for _ in range(FEWEST)]
            await settle()
            assert error_of((await sluice.ask(target=TOKENIZE)).body)["code"] == "queue_full"
            sluice.application.fleet.set([])
            refusal = await sluice.ask(target=TOKENIZE)
            error = error_of(refusal.body)
            assert (refusal.status, error["code"]) == (503, "upstream_unavailable")
            assert "no engine is known" in error["message"]
            assert refusal.header("x-should-retry") == "false"
            assert refusal.header("retry-after")
            assert (await sluice.get(b"/version")).status == 503
            assert sluice.sheds() == {"queue_full": 1, "upstream_unavailable": 2}
            hold.release()
            assert {(await exchange.response()).status for exchange in held} == {200}

    run(scenario())


def test_an_engine_that_has_all_it_may_have_leaves_the_others_places_to_the_others() -> None:
    async def scenario() -> None:
        cluster = EngineCluster("a", "b")
        holds = [Hold(), Hold()]
        cluster["a"].app.handler, cluster["b"].app.handler = holds
        given = {"upstream": cluster, "upstream_urls": cluster.urls, "max_in_flight": 8}
        async with gateway(cluster["a"].app, **given) as sluice:
            asked = [sluice.start(target=TOKENIZE) for _ in range(2 * FEWEST)]
            await settle()
            assert cluster.seen() == {"a": FEWEST, "b": FEWEST}
            assert await statuses_of(sluice, 1, b"{}") == [503]
            cluster["b"].app.handler = answer
            holds[1].release()
            await settle()
            for _ in range(5):
                assert await statuses_of(sluice, FEWEST, b"{}") == [200] * FEWEST
            assert cluster["a"].app.in_flight == FEWEST
            await leave(*asked)

    run(scenario())


def test_an_engine_that_sits_on_them_does_not_keep_them_from_the_others() -> None:
    async def scenario() -> None:
        cluster = EngineCluster("a", "b")
        cluster["a"].app.handler = Hold()
        given = {"upstream": cluster, "upstream_urls": cluster.urls, "max_in_flight": 8}
        async with gateway(cluster["a"].app, **given) as sluice:
            asked = []
            for _ in range(100):
                asked.append(sluice.start(target=TOKENIZE))
                await settle()
            assert cluster.seen() == {"a": 1, "b": 99}
            await leave(*asked)
            assert sluice.outcomes() == {"ok": 99, "abandoned": 1}

    run(scenario())
