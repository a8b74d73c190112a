"""Changes through the admin application of a whole gateway, while requests run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import gateway
from tests.support.scripted_app import Hold, ScriptedApp, error_of
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from tests.support.asgi_transport import Response
    from tests.support.gateway_in_memory import Sluice

pytestmark = pytest.mark.usefixtures("clean_environment")

TOKEN = "let-me-in-and-change"


async def admin(sluice: Sluice, method: str, path: str, body: object = None) -> Response:
    fields = [(b"authorization", f"Bearer {TOKEN}".encode())]
    content = b"" if body is None else json.dumps(body).encode()
    return await AsgiClient(sluice.application.admin).request(
        method, path.encode(), fields, content
    )


async def change(sluice: Sluice, **wanted: object) -> dict[str, Any]:
    answer = await admin(sluice, "PATCH", "/admin/settings", wanted)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_a_raised_limit_lets_in_who_waits() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with gateway(ScriptedApp(hold), admin_token=TOKEN) as sluice:
            exchanges = await sluice.hold_seats(4)
            assert (sluice.in_flight, sluice.queue_depth) == (2, 2)
            told = await change(sluice, max_in_flight=3)
            assert told["max_in_flight"] == {
                "setting": "SLUICE_MAX_IN_FLIGHT",
                "now": 3,
                "at_start": 2,
            }
            await settle()
            assert (sluice.in_flight, sluice.queue_depth) == (3, 1)
            hold.release()
            assert [(await one.response()).status for one in exchanges] == [200] * 4

    run(scenario())


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_lowered_limit_drops_nobody_and_takes_hold_as_requests_end(adaptive: bool) -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, admin_token=TOKEN, adaptive=adaptive) as sluice:
            running = await sluice.hold_seats(2)
            await change(sluice, max_in_flight=1)
            assert (sluice.in_flight, sluice.metric("sluice_concurrency_limit")) == (2, 1)
            waiting = await sluice.hold_seats(1)
            hold.release()
            for exchange in (*running, *waiting):
                assert (await exchange.response()).status == 200
            assert engine.peak == 2
            await sluice.probe_capacity(engine)

    run(scenario())


def test_another_queue_timeout_is_that_of_who_comes_after() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with gateway(ScriptedApp(hold), admin_token=TOKEN) as sluice:
            running = await sluice.hold_seats(2)
            await change(sluice, queue_timeout=1.5)
            began = now()
            refused = await sluice.ask()
            assert (refused.status, now() - began) == (503, pytest.approx(1.5))
            hold.release()
            for exchange in running:
                assert (await exchange.response()).status == 200

    run(scenario())


def test_shadow_mode_and_back() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, admin_token=TOKEN) as sluice:
            running = await sluice.hold_seats(3)
            await change(sluice, shadow=True)
            await settle()
            running += await sluice.hold_seats(2)
            assert (sluice.in_flight, sluice.queue_depth) == (5, 0)
            await change(sluice, shadow=None)
            waiting = await sluice.hold_seats(1)
            assert (sluice.in_flight, sluice.queue_depth) == (5, 1)
            hold.release()
            for exchange in (*running, *waiting):
                assert (await exchange.response()).status == 200
            await sluice.probe_capacity(engine)

    run(scenario())


def test_the_drain_on_and_off() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with gateway(ScriptedApp(hold), admin_token=TOKEN) as sluice:
            running = await sluice.hold_seats(1)
            answer = await admin(sluice, "PUT", "/admin/drain", {"draining": True})
            assert json.loads(answer.body) == {"draining": True, "running": 1}
            refused = await sluice.ask()
            assert (refused.status, error_of(refused.body)["code"]) == (503, "draining")
            assert (await sluice.get(b"/readyz")).status == 503
            assert sluice.metric("sluice_draining") == 1
            assert not sluice.application.drain.is_over
            answer = await admin(sluice, "PUT", "/admin/drain", {"draining": False})
            assert json.loads(answer.body) == {"draining": False, "running": 1}
            assert (await sluice.get(b"/readyz")).status == 200
            running += await sluice.hold_seats(1)
            hold.release()
            for exchange in running:
                assert (await exchange.response()).status == 200

    run(scenario())


def test_a_gateway_that_was_told_to_stop_drains_for_good() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), admin_token=TOKEN) as sluice:
            await admin(sluice, "PUT", "/admin/drain", {"draining": True})
            sluice.application.begin_drain()
            answer = await admin(sluice, "PUT", "/admin/drain", {"draining": False})
            assert answer.status == 409
            assert sluice.application.drain.begun
            assert await sluice.application.drain.finish(1) == 0

    run(scenario())


def test_the_memory_for_bodies_follows_the_limit() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), admin_token=TOKEN, max_body_bytes=100) as sluice:
            await change(sluice, max_in_flight=7)
            assert sluice.application.public.intake.max_buffered_bytes == (7 + 4) * 100

    run(scenario())


def test_how_many_may_be_under_way_without_a_seat_follows_the_limit_and_so_do_descriptors() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp(), admin_token=TOKEN, max_in_flight=150) as sluice:
            application = sluice.application
            assert application.public.open_places.most == 150
            most = application.fleet.most_connections()
            await change(sluice, max_in_flight=160)
            assert application.public.open_places.most == 160
            assert application.fleet.most_connections() == most + 10 + 10

    run(scenario())


def test_without_a_token_there_is_nothing_to_change() -> None:
    async def scenario() -> None:
        async with gateway(ScriptedApp()) as sluice:
            for path in ("/admin/settings", "/admin/drain"):
                answer = await admin(sluice, "GET", path)
                assert (answer.status, error_of(answer.body)["code"]) == (404, "unknown_path")

    run(scenario())
