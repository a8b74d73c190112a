"""More than there is room for: who is served, who waits, who is refused, and how soon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import Hold, ScriptedApp, after, answer, error_of, silent, stream
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from tests.support.asgi_transport import AsgiExchange, Response

OPEN_ROUTES = [
    ("GET", b"/v1/models"),
    ("GET", b"/v1/models/org%2Fname"),
    ("GET", b"/version"),
    ("POST", b"/tokenize"),
    ("POST", b"/v1/messages/count_tokens"),
    ("GET", b"/v1/responses/r_1"),
    ("POST", b"/v1/responses/r_1/cancel"),
]
BODY_IN_TEN_SECONDS: list[bytes | float] = [b"{", 10.0, b"}"]


async def answers(exchanges: list[AsgiExchange]) -> list[Response]:
    return list(await asyncio.gather(*(exchange.response() for exchange in exchanges)))


def statuses(responses: list[Response]) -> list[int]:
    return [response.status for response in responses]


def test_of_a_thousand_at_once_exactly_as_many_are_served_as_there_is_room_for() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            responses = await answers([sluice.start() for _ in range(1000)])
            assert sorted(statuses(responses)) == [200] * 6 + [503] * 994
            assert statuses(responses)[:6] == [200] * 6  # in the order in which they came
            assert engine.peak == 2
            assert sluice.outcomes() == {"ok": 6, "shed": 994}
            assert sluice.sheds() == {"queue_full": 994}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_with_an_engine_that_answers_at_once_the_bound_holds_too() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(answer)
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            deepest = 0
            exchanges = []
            for _ in range(200):
                exchanges += [sluice.start() for _ in range(5)]
                await asyncio.sleep(0)
                deepest = max(deepest, sluice.queue_depth)
            responses = await answers(exchanges)
            assert set(statuses(responses)) <= {200, 503}
            assert engine.peak <= 2
            assert deepest <= 4
            await sluice.probe_capacity(engine)

    run(scenario())


def test_refusals_are_made_before_the_body_is_read_and_without_waiting() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            held = await sluice.hold_seats(6)
            late = [sluice.start(BODY_IN_TEN_SECONDS) for _ in range(100)]
            assert [(await exchange.head()).status for exchange in late] == [503] * 100
            assert now() == 0
            assert sluice.application.public.intake.buffered_bytes == 0
            await leave(*(held + late))

    run(scenario())


def test_a_refusal_says_which_limit_it_was_and_when_to_come_back() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=2, max_queue_depth=1, queue_timeout=60) as sluice:
            held = await sluice.hold_seats(3)
            refusals = [await sluice.ask() for _ in range(100)]
            error = error_of(refusals[0].body)
            assert error["type"] == "service_unavailable_error"
            assert error["code"] == refusals[0].header("x-sluice-reason") == "queue_full"
            assert "2 of 2 seats" in error["message"]
            assert "1 of 1 places" in error["message"]
            assert refusals[0].header("server-timing") == "queue;dur=0.0"
            waits = [int(refusal.header("retry-after") or "") for refusal in refusals]
            assert all(1 <= wait <= 55 for wait in waits)
            precise = {refusal.header("retry-after-ms") for refusal in refusals}
            assert len(precise) > 50, "clients that were refused together come back together"
            await leave(*held)

    run(scenario())


def test_the_status_of_a_refusal_can_be_chosen() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(
            engine, max_in_flight=1, max_queue_depth=0, overload_status=429
        ) as sluice:
            (held,) = await sluice.hold_seats(1)
            refusal = await sluice.ask()
            assert refusal.status == 429
            assert error_of(refusal.body)["type"] == "rate_limit_error"
            await leave(held)

    run(scenario())


def test_a_limit_is_no_rate() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(5.0))
        async with gateway(
            engine, max_in_flight=10, max_queue_depth=200, queue_timeout=100
        ) as sluice:
            exchanges = []
            for _ in range(100):
                exchanges.append(sluice.start())
                await asyncio.sleep(0.03)
            await answers(exchanges)
            assert engine.peak == 10
            assert now() == pytest.approx(50, abs=0.5)

    run(scenario())


@pytest.mark.parametrize("stream_it", [True, False])
def test_a_refusal_of_a_stream_is_a_status_and_no_event(stream_it: bool) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=1, max_queue_depth=1) as sluice:
            (held,) = await sluice.hold_seats(1)
            body = {"stream": stream_it}
            waiting = sluice.start(body)
            await settle()
            full = await sluice.ask(body)
            late = await waiting.response()
            assert [full.status, late.status] == [503, 503]
            assert [full.header("content-type"), late.header("content-type")] == [
                "application/json"
            ] * 2
            await leave(held)

    run(scenario())


@pytest.mark.parametrize(("method", "target"), OPEN_ROUTES)
def test_open_routes_are_alive_at_saturation_and_take_no_seat(method: str, target: bytes) -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            held = await sluice.hold_seats(6)
            engine.handler = answer
            for _ in range(20):
                assert (await sluice.ask(target=target, method=method)).status == 200
            assert (now(), sluice.in_flight, sluice.queue_depth) == (0, 2, 4)
            hold.release()
            assert statuses(await answers(held)) == [200] * 6

    run(scenario())


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
def test_saturation_makes_the_gateway_neither_dead_nor_unready(path: bytes) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=2, max_queue_depth=4) as sluice:
            held = await sluice.hold_seats(6)
            assert (await sluice.get(path)).status == 200
            assert (now(), len(engine.seen)) == (0, 2)
            await leave(*held)

    run(scenario())


def test_a_slow_upload_holds_neither_a_seat_nor_a_place() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=1, max_queue_depth=1) as sluice:
            uploads = [sluice.start(BODY_IN_TEN_SECONDS) for _ in range(50)]
            await asyncio.sleep(1)
            assert (sluice.in_flight, sluice.queue_depth) == (0, 0)
            assert statuses(await answers([sluice.start() for _ in range(2)])) == [200, 200]
            responses = await answers(uploads)
            assert sorted(statuses(responses)) == [200] * 2 + [503] * 48

    run(scenario())


def test_uploads_together_hold_no_more_memory_than_the_places_may() -> None:
    async def scenario() -> None:
        engine = ScriptedApp()
        async with gateway(
            engine, max_in_flight=1, max_queue_depth=1, max_body_bytes=1000
        ) as sluice:
            pieces: list[bytes | float] = [b" " * 900, 10.0, b"{}"]
            uploads = [sluice.start(pieces) for _ in range(5)]
            await settle()
            assert sluice.application.public.intake.buffered_bytes == 1800
            responses = await answers(uploads)
            assert sorted(statuses(responses)) == [200, 200, 503, 503, 503]
            refused = next(one for one in responses if one.status == 503)
            assert error_of(refused.body)["code"] == "queue_full"
            assert "2000 bytes" in error_of(refused.body)["message"]
            assert sluice.sheds() == {"queue_full": 3}

    run(scenario())


def test_without_places_nobody_waits() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=2, max_queue_depth=0) as sluice:
            responses = await answers([sluice.start() for _ in range(10)])
            assert statuses(responses) == [200] * 2 + [503] * 8
            assert now() == 1

    run(scenario())


def test_places_come_free_for_newcomers_as_seats_do() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=2, max_queue_depth=2) as sluice:
            first = [sluice.start() for _ in range(4)]
            await asyncio.sleep(1.0)
            await settle()
            second = [sluice.start() for _ in range(3)]
            assert statuses(await answers(first)) == [200] * 4
            assert statuses(await answers(second)) == [200, 200, 503]

    run(scenario())


# Requests of several sequences -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ({"n": 4}, b"/v1/completions"),
        ({"n": 4}, b"/v1/chat/completions"),
        ({"n": 1, "best_of": 4}, b"/v1/completions"),
        ({"n": 4, "use_beam_search": True}, b"/v1/completions"),
        ({"prompt": ["a", "b"], "n": 2}, b"/v1/completions"),
        ({"input": ["a", "b", "c", "d"]}, b"/v1/embeddings"),
    ],
)
def test_a_request_takes_as_many_seats_as_it_has_sequences(
    body: dict[str, object], target: bytes
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=5, max_queue_depth=5) as sluice:
            wide = sluice.start(body, target=target)
            await settle()
            assert sluice.in_flight == 4
            narrow = [sluice.start() for _ in range(2)]
            await settle()
            assert (sluice.in_flight, sluice.queue_depth) == (5, 1)
            assert statuses(await answers([wide, *narrow])) == [200] * 3
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_request_wider_than_the_limit_waits_until_it_runs_alone() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(engine, max_in_flight=2, max_queue_depth=10) as sluice:
            before = [sluice.start(client_id=f"before {number}") for number in range(2)]
            await settle()
            wide = sluice.start({"n": 500}, client_id="wide")
            await settle()
            behind = [sluice.start(client_id=f"behind {number}") for number in range(2)]
            assert statuses(await answers([*before, wide, *behind])) == [200] * 5
            began = {call.client_id: call.began_at for call in engine.seen}
            assert began == {
                "before 0": 0,
                "before 1": 0,
                "behind 0": 1,  # one may pass, then room is kept
                "wide": 2,
                "behind 1": 3,
            }
            assert max(record.seats for record in sluice.records) == 500
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_wide_request_at_the_head_is_not_overtaken_by_narrow_ones() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(1.0))
        async with gateway(
            engine, max_in_flight=2, max_queue_depth=100, queue_timeout=60
        ) as sluice:
            exchanges = [sluice.start()]
            await asyncio.sleep(0.5)
            exchanges.append(sluice.start({"n": 2}, client_id="wide"))
            await asyncio.sleep(0)
            for _ in range(20):
                exchanges.append(sluice.start())
                await asyncio.sleep(0.1)
            assert statuses(await answers(exchanges)) == [200] * 22
            assert engine.seen_ids()[1] == "wide"
            assert next(c.began_at for c in engine.seen if c.client_id == "wide") == pytest.approx(
                1
            )

    run(scenario())


# Shadow ----------------------------------------------------------------------------------------


def test_in_shadow_mode_everybody_is_served_and_the_refusals_are_counted() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(2, interval_s=0.5))
        async with gateway(engine, max_in_flight=2, max_queue_depth=4, shadow=True) as sluice:
            responses = await answers([sluice.start() for _ in range(20)])
            assert statuses(responses) == [200] * 20
            assert engine.peak == 20
            assert sluice.sheds() == {}
            assert sluice.metric("sluice_shadow_shed_total", reason="queue_full") == 14

    run(scenario())
