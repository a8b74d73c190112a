"""How long a request waits: our timeout, its client's, the engine's. Each from its own moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.port import UpstreamTimeouts
from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import (
    Hold,
    ScriptedApp,
    after,
    error_of,
    event_error,
    silent,
    stream,
)
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from tests.support.scripted_app import Call


async def wait_in_vain(*headers: tuple[bytes, bytes], **settings: object) -> tuple[float, float]:
    """How long a request with these headers waits for a seat in vain: by the clock, as told."""
    engine = ScriptedApp(silent)
    async with gateway(engine, max_in_flight=1, **settings) as sluice:
        (held,) = await sluice.hold_seats(1)
        began_at = now()
        refusal = await sluice.ask(headers=headers)
        waited_s = now() - began_at
        assert refusal.status == 503
        assert error_of(refusal.body)["code"] == "queue_timeout"
        assert sluice.sheds() == {"queue_timeout": 1}
        await leave(held)
        timing = refusal.header("server-timing") or ""
        return waited_s, float(timing.removeprefix("queue;dur=")) / 1000


def test_a_request_waits_as_long_as_the_queue_timeout_and_is_told_so() -> None:
    async def scenario() -> None:
        assert await wait_in_vain(queue_timeout=5) == (5, 5)

    run(scenario())


@pytest.mark.parametrize(
    ("header", "value", "waits_s"),
    [
        (b"x-sluice-queue-timeout", b"2", 2),
        (b"x-sluice-queue-timeout", b"0.25", 0.25),
        (b"x-sluice-queue-timeout", b"0", 0),
        (b"x-sluice-queue-timeout", b"5000", 5),  # never longer
        (b"x-stainless-read-timeout", b"3", 3),
        (b"x-stainless-read-timeout", b"600", 5),
        (b"x-stainless-timeout", b"1.5", 1.5),
        (b"x-stainless-timeout", b"nonsense", 5),
    ],
)
def test_a_client_may_shorten_the_wait_and_never_lengthen_it(
    header: bytes, value: bytes, waits_s: float
) -> None:
    async def scenario() -> None:
        assert (await wait_in_vain((header, value), queue_timeout=5))[0] == waits_s

    run(scenario())


def test_the_shortest_of_all_bounds_counts() -> None:
    async def scenario() -> None:
        bounds = [
            (b"x-sluice-queue-timeout", b"4"),
            (b"x-stainless-read-timeout", b"2"),
            (b"x-stainless-timeout", b"3"),
        ]
        assert (await wait_in_vain(*bounds, queue_timeout=5))[0] == 2

    run(scenario())


def test_a_queue_timeout_of_nothing_means_no_waiting_at_all() -> None:
    async def scenario() -> None:
        assert (await wait_in_vain(queue_timeout=0))[0] == 0

    run(scenario())


def test_the_wait_is_counted_from_the_last_byte_of_the_request() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=1, queue_timeout=5) as sluice:
            (held,) = await sluice.hold_seats(1)
            slow = sluice.start([b"{", 20.0, b"}"])
            refusal = await slow.response()
            assert (refusal.status, now()) == (503, 25)
            await leave(held)

    run(scenario())


def test_waits_are_told_apart_in_the_metrics() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(3.0))
        async with gateway(engine, max_in_flight=1, max_queue_depth=9, queue_timeout=5) as sluice:
            exchanges = [sluice.start() for _ in range(3)]  # the third would begin at 6
            await asyncio.sleep(1)
            leaves = sluice.start()
            await asyncio.sleep(1)
            leaves.disconnect()
            await asyncio.gather(*(exchange.ended() for exchange in exchanges))
            name = "sluice_queue_wait_seconds"
            sums = {
                outcome: (
                    sluice.metric(f"{name}_count", outcome=outcome),
                    sluice.metric(f"{name}_sum", outcome=outcome),
                )
                for outcome in ("admitted", "timeout", "abandoned")
            }
            assert sums == {"admitted": (2, 3), "timeout": (1, 5), "abandoned": (1, 1)}

    run(scenario())


def test_an_eviction_makes_room_for_who_is_behind() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=2, max_queue_depth=9, queue_timeout=5) as sluice:
            held = [sluice.start()]
            await settle()
            wide = sluice.start({"n": 2})  # has to wait for both seats
            await asyncio.sleep(1)
            behind = sluice.start(client_id="behind")
            assert (await wide.response()).status == 503
            await settle()
            assert (now(), engine.seen_ids()[-1]) == (5, "behind")
            await leave(*held, behind)

    run(scenario())


# The engine's time -----------------------------------------------------------------------------


def test_an_engine_that_is_silent_before_its_answer_is_a_504_at_its_time() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        limits = UpstreamTimeouts(first_byte_s=600)
        async with gateway(engine, timeouts=limits) as sluice:
            answer = await sluice.ask()
            assert (answer.status, now()) == (504, 600)
            assert error_of(answer.body)["code"] == "upstream_timeout"
            await settle()
            assert engine.aborts == 1
            assert sluice.outcomes() == {"upstream_error": 1}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_silent_prefill_and_pause_shorter_than_the_limits_pass() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(90, stream(3, interval_s=90)))
        async with gateway(engine) as sluice:
            answer = await sluice.ask({"stream": True})
            assert answer.completed
            assert now() == 90 * 4

    run(scenario())


def test_a_stream_that_falls_silent_is_cut_with_an_event() -> None:
    async def scenario() -> None:
        async def five_tokens(call: Call) -> None:
            await call.start()
            for _ in range(5):
                await call.chunk(b"data: {}\n\n")
                await asyncio.sleep(1)
            await silent(call)

        engine = ScriptedApp(five_tokens)
        async with gateway(engine, timeouts=UpstreamTimeouts(idle_s=3)) as sluice:
            answer = await sluice.ask({"stream": True})
            assert not answer.completed
            assert event_error(answer.body)["code"] == "upstream_timeout"
            assert b"[DONE]" not in answer.body
            assert now() == 4 + 3
            assert sluice.outcomes() == {"upstream_error": 1}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_the_limit_on_silence_does_not_cut_a_stream_that_flows() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(3600, interval_s=1))
        limits = UpstreamTimeouts(first_byte_s=3, idle_s=3)
        async with gateway(engine, timeouts=limits, queue_timeout=1) as sluice:
            answer = await sluice.ask({"stream": True})
            assert answer.completed
            assert now() == 3600

    run(scenario())


def test_nothing_of_the_queues_deadline_is_left_once_a_request_runs() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=1, queue_timeout=5) as sluice:
            (held,) = await sluice.hold_seats(1)
            shortened = [(b"x-sluice-queue-timeout", b"3"), (b"x-stainless-timeout", b"4")]
            waiting = sluice.start(headers=shortened)
            await asyncio.sleep(2)
            held.disconnect()
            await asyncio.sleep(100)
            hold.release()
            assert (await waiting.response()).status == 200

    run(scenario())
