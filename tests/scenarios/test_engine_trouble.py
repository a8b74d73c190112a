"""Engines that refuse, fail, or go away: what their clients see, and that the seats come back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.admission.outcome import Reason
from proxy.upstream.errors import UpstreamConnectError
from tests.support.gateway_in_memory import ENGINE_URL, gateway, leave
from tests.support.scripted_app import (
    Hold,
    ScriptedApp,
    after,
    answer,
    dies,
    error_of,
    responds,
    silent,
    stream,
)
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from tests.support.scripted_app import Handler

FAILURES = {
    "dies": dies,
    "dies in a stream": stream(2, breaks_off=True),
    "400": responds(400),
    "429": responds(429),
    "500": responds(500),
    "502": responds(502),
    "503": responds(503),
    "504": responds(504),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_every_failure_of_an_engine_gives_the_seat_back_and_is_passed_on_once(failure: str) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(FAILURES[failure])
        async with gateway(engine, max_in_flight=2, max_queue_depth=20) as sluice:
            exchanges = [sluice.start({"stream": number % 2 == 0}) for number in range(20)]
            await asyncio.gather(*(exchange.response() for exchange in exchanges))
            assert len(engine.seen) == 20  # one each: no retry of ours
            assert sluice.outcomes()["ok"] == 0
            assert sluice.sheds() == {}
            await sluice.probe_capacity(engine)

    run(scenario())


@pytest.mark.parametrize("status", [429, 503])
def test_the_engines_own_refusals_are_not_ours(status: int) -> None:
    async def scenario() -> None:
        body = b'{"error": {"message": "engine full"}}'
        refusal: Handler = responds(status, body, [(b"retry-after", b"9"), (b"x-engine", b"1")])
        engine = ScriptedApp(refusal)
        async with gateway(engine, max_in_flight=2) as sluice:
            theirs = await sluice.ask()
            engine.handler = silent
            held = await sluice.hold_seats(6)
            ours = await sluice.ask()
            assert (theirs.status, theirs.body) == (status, body)
            assert (theirs.header("retry-after"), theirs.header("x-engine")) == ("9", "1")
            assert theirs.header("x-sluice-reason") is None
            assert ours.header("x-sluice-reason") == "queue_full"
            assert sluice.outcomes() == {"upstream_overloaded": 1, "shed": 1}
            assert sluice.sheds() == {"queue_full": 1}
            assert sluice.metric("sluice_concurrency_limit") == 2
            await leave(*held)

    run(scenario())


def test_an_engine_that_fails_everybody_at_once_drains_the_queue_without_a_loop() -> None:
    async def scenario() -> None:
        hold = Hold(then=responds(500))
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=2, max_queue_depth=50) as sluice:
            exchanges = [sluice.start() for _ in range(52)]
            await asyncio.sleep(1)
            hold.release()
            answers = await asyncio.gather(*(exchange.response() for exchange in exchanges))
            assert {one.status for one in answers} == {500}
            assert (now(), len(engine.seen)) == (1, 52)
            engine.handler = answer
            assert (await sluice.ask()).status == 200

    run(scenario())


def test_an_engine_that_is_known_to_be_down_is_refused_for_at_once() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            held = await sluice.hold_seats(4)
            controller = sluice.application.controller
            controller.suspend(ENGINE_URL, Reason.UPSTREAM_UNAVAILABLE)
            evicted = [await exchange.response() for exchange in held[2:]]
            newcomer = await sluice.ask()
            for refusal in [*evicted, newcomer]:
                assert refusal.status == 503
                assert error_of(refusal.body)["code"] == "upstream_unavailable"
                assert refusal.header("x-should-retry") == "false"
                assert 1 <= int(refusal.header("retry-after") or "") <= 55
            assert now() == 0
            assert sluice.in_flight == 2  # what runs may finish
            controller.resume(ENGINE_URL)
            await leave(*held[:2])
            await sluice.probe_capacity(engine)

    run(scenario())


def test_an_engine_that_comes_back_is_used_again_at_once() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(answer)
        async with gateway(engine, max_in_flight=2, max_queue_depth=50) as sluice:
            sluice.upstream.fails_with = UpstreamConnectError("connection refused")
            statuses = [(await sluice.ask()).status for _ in range(50)]
            assert statuses == [502] * 50
            sluice.upstream.fails_with = None
            assert (await sluice.ask()).status == 200
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_slow_engine_is_not_asked_for_more_than_it_has_seats() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(60.0))
        async with gateway(engine, max_in_flight=300, max_queue_depth=10) as sluice:
            held = await sluice.hold_seats(310)
            assert (sluice.upstream.in_flight, sluice.queue_depth) == (300, 10)
            models = sluice.start(b"", method="GET", target=b"/v1/models")
            await settle()
            assert sluice.upstream.in_flight == 301  # open routes do not wait for a connection
            await leave(*held, models)

    run(scenario())
