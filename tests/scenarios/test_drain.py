"""The end of the process's life, as far as it needs no signal and no socket."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import (
    DONE,
    ScriptedApp,
    after,
    answer,
    error_of,
    event_error,
    silent,
    stream,
)
from tests.support.virtual_time import now, run, settle


def test_what_runs_finishes_what_waits_is_told_and_what_comes_is_refused() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(10, interval_s=1.0))
        async with gateway(engine, max_in_flight=3, max_queue_depth=4, queue_timeout=60) as sluice:
            held = await sluice.hold_seats(7)
            await asyncio.sleep(2)
            sluice.application.begin_drain()
            refused = [await exchange.response() for exchange in held[3:]]
            newcomer = await sluice.ask()
            assert now() == 2
            for refusal in [*refused, newcomer]:
                assert refusal.status == 503
                error = error_of(refusal.body)
                assert (error["type"], error["code"]) == ("service_unavailable_error", "draining")
                assert refusal.header("connection") == "close"
                assert 1 <= int(refusal.header("retry-after") or "") <= 55
            assert await sluice.application.drain.finish(15) == 0
            assert now() == 10
            answers = [await exchange.response() for exchange in held[:3]]
            assert all(one.completed and one.body.endswith(DONE) for one in answers)
            assert sluice.outcomes() == {"ok": 3, "shed": 5}
            assert sluice.sheds() == {"draining": 5}

    run(scenario())


def test_what_outlives_the_drain_is_broken_off_and_the_engine_sees_it() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(1000, interval_s=1.0))
        async with gateway(engine, max_in_flight=3) as sluice:
            streaming = sluice.start({"stream": True})
            await streaming.head()
            engine.handler = silent
            mute = sluice.start()
            await asyncio.sleep(2)
            sluice.application.begin_drain()
            assert await sluice.application.drain.finish(15) == 2
            assert now() == 17
            broken, unanswered = await streaming.response(), await mute.response()
            assert not broken.completed
            assert event_error(broken.body)["code"] == "draining"
            assert b"[DONE]" not in broken.body
            assert unanswered.status == 503
            assert error_of(unanswered.body)["code"] == "draining"
            await settle()
            assert engine.aborts == 2
            assert sluice.outcomes() == {"shed": 2}

    run(scenario())


def test_an_upload_that_outlives_the_drain_is_answered_too() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), body_timeout=100) as sluice:
            upload = sluice.start([b"{", 90.0, b"}"])
            await asyncio.sleep(1)
            sluice.application.begin_drain()
            assert await sluice.application.drain.finish(15) == 1
            head = await upload.head()
            assert (head.status, now()) == (503, 16)
            await upload.ended()

    run(scenario())


def test_an_upload_under_way_is_refused_when_it_is_complete() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(engine) as sluice:
            upload = sluice.start([b"{", 5.0, b"}"])
            await asyncio.sleep(1)
            sluice.application.begin_drain()
            assert await sluice.application.drain.finish(15) == 0
            assert (await upload.response()).status == 503
            assert (now(), engine.seen) == (5, [])

    run(scenario())


def test_readiness_ends_at_once_and_liveness_does_not() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(10.0))
        async with gateway(engine) as sluice:
            (held,) = await sluice.hold_seats(1)
            assert (await sluice.get(b"/readyz")).status == 200
            sluice.application.begin_drain()
            assert (await sluice.get(b"/readyz")).status == 503
            assert (await sluice.get(b"/healthz")).status == 200
            assert sluice.metric("sluice_draining") == 1
            assert (await held.response()).status == 200

    run(scenario())


def test_open_routes_are_served_meanwhile_and_their_connections_closed() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(answer)) as sluice:
            assert (await sluice.get(b"/v1/models")).header("connection") is None
            sluice.application.begin_drain()
            models = await sluice.get(b"/v1/models")
            assert (models.status, models.header("connection")) == (200, "close")

    run(scenario())


def test_answers_that_begin_during_the_drain_close_their_connections() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(after(3.0))) as sluice:
            (held,) = await sluice.hold_seats(1)
            sluice.application.begin_drain()
            assert (await held.response()).header("connection") == "close"
            unknown = await sluice.get(b"/docs")
            assert (unknown.status, unknown.header("connection")) == (404, "close")

    run(scenario())


def test_an_open_route_asked_for_at_the_very_end_does_not_hold_the_process_up() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine) as sluice:
            sluice.application.begin_drain()
            assert await sluice.application.drain.finish(0) == 0
            late = await sluice.get(b"/v1/models")
            assert (late.status, now()) == (503, 0)
            assert error_of(late.body)["code"] == "draining"

    run(scenario())


@pytest.mark.parametrize("leaves_at", [0.5, 14.999, 15.0, 15.001])
def test_a_client_that_leaves_around_the_end_of_the_drain_has_one_outcome(
    leaves_at: float,
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(1000, interval_s=0.3))
        async with gateway(engine, max_in_flight=3) as sluice:
            streams = [sluice.start({"stream": True}) for _ in range(3)]
            await settle()
            sluice.application.begin_drain()
            loop = asyncio.get_running_loop()
            for exchange in streams:
                loop.call_at(leaves_at, exchange.disconnect)
            await sluice.application.drain.finish(15)
            await asyncio.gather(*(exchange.ended() for exchange in streams))
            assert sluice.outcomes().total() == 3
            await settle()
            assert engine.aborts == 3

    run(scenario())


def test_the_last_client_to_leave_ends_the_drain() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(silent)) as sluice:
            held = await sluice.hold_seats(2)
            sluice.application.begin_drain()
            draining = asyncio.create_task(sluice.application.drain.finish(1000))
            await asyncio.sleep(5)
            await leave(*held)
            assert await draining == 0
            assert now() < 5.1

    run(scenario())
