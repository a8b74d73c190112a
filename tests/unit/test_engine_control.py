"""What the poller reads, turned into suspensions and limits that move."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from typing import Any

import pytest

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Reason
from proxy.admission.request import AdmissionRequest as Request
from proxy.admission.saturation import Saturation
from proxy.engine_control import EngineControl
from proxy.settings import Settings
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamTimeoutError,
)
from proxy.vllm.metrics_page import EngineMetrics
from proxy.vllm.poller import EngineStatus
from proxy.vllm.served_models import ServedModel
from tests.support.admission import Holder, MovableLimit, RecordingObserver, turns
from tests.support.virtual_time import now, run

pytestmark = pytest.mark.usefixtures("clean_environment")

UP = EngineStatus(up=True, ready=True, reason="fine", metrics=None, metrics_age_s=None)
DOWN = replace(UP, up=False, ready=False, reason="connection refused")
GONE = UpstreamConnectError("connection refused")
STALLED = replace(UP, stalled=True, ready=False, reason="no progress")


def serving(name: str, max_model_len: int | None = None) -> tuple[ServedModel, ...]:
    return (ServedModel(name, max_model_len),)


class Stand:
    """A control and its controller on the running loop's clock. `others` serve the same, a seat
    each."""

    def __init__(self, *others: str, joins: bool = True, **values: object) -> None:
        given: dict[str, Any] = {"max_in_flight": 20, "max_queue_depth": 50, **values}
        clock = asyncio.get_running_loop().time
        self.control = EngineControl("engine", Settings(**given), clock)
        limits = {name: MovableLimit(1) for name in others}
        self.controller = AdmissionController(limits, 50, clock, RecordingObserver())
        self.control.attach(self.controller, None)
        if joins:
            self.control.join()
        self.holders: list[Holder] = []

    async def ask(self, count: int = 1, model: str | None = None) -> list[Holder]:
        asked = [Holder(self.controller, Request(1, now() + 60, model=model)) for _ in range(count)]
        self.holders += asked
        await turns()
        return asked

    async def close(self) -> None:
        for holder in self.holders:
            holder.cancel()
        await asyncio.gather(*(holder.task for holder in self.holders), return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(DOWN, Reason.UPSTREAM_UNAVAILABLE), (STALLED, Reason.UPSTREAM_STALLED)],
)
def test_an_engine_that_cannot_serve_is_asked_nothing_and_those_who_wait_are_told(
    status: EngineStatus, reason: Reason
) -> None:
    async def scenario() -> None:
        stand = Stand()
        holders = await stand.ask(21)
        stand.control.status_changed(status)
        await turns()
        assert holders[-1].reason is reason
        (newcomer,) = await stand.ask()
        assert newcomer.reason is reason
        await stand.close()

    run(scenario())


def test_after_a_recovery_the_seats_open_one_after_the_other() -> None:
    async def scenario() -> None:
        stand = Stand()
        stand.control.status_changed(DOWN)
        stand.control.status_changed(UP)
        await stand.ask(30)
        seats = []
        for _ in range(12):
            seats.append(stand.control.in_flight)
            await asyncio.sleep(1)
            stand.control.status_read(UP)
            await turns()
        assert seats[0] == 2
        assert seats == sorted(seats)
        assert seats[-1] == 20
        await stand.close()

    run(scenario())


def test_they_open_also_while_the_poller_waits_for_its_answer() -> None:
    async def scenario() -> None:
        stand = Stand()
        stand.control.status_changed(DOWN)
        stand.control.status_changed(UP)
        await stand.ask(30)
        assert stand.control.in_flight == 2
        await asyncio.sleep(5)
        stand.control.time_passed()
        await turns()
        assert stand.control.in_flight == 11
        await stand.close()

    run(scenario())


def test_an_engine_that_was_up_all_along_needs_no_slow_start() -> None:
    async def scenario() -> None:
        stand = Stand()
        stand.control.status_changed(UP)
        await stand.ask(20)
        assert stand.control.in_flight == 20
        await stand.close()

    run(scenario())


def test_an_adaptive_limit_moves_on_what_the_engine_shows_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        stand = Stand(adaptive=True)
        await stand.ask(20)
        full = replace(UP, saturation=Saturation(kv_cache_usage=0.99, preemptions_per_s=3.0))
        with caplog.at_level(logging.INFO, "sluice.engine"):
            stand.control.status_read(full)
        assert stand.control.limit.seats < 20
        assert "engine engine: limit 20 -> " in caplog.text
        await stand.close()

    run(scenario())


def test_without_being_asked_to_the_limit_does_not_move() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.ask(20)
        stand.control.status_read(replace(UP, saturation=Saturation(preemptions_per_s=9.0)))
        assert stand.control.limit.seats == 20
        await stand.close()

    run(scenario())


def test_an_automatic_kv_budget_follows_the_size_of_the_cache() -> None:
    async def scenario() -> None:
        stand = Stand(max_kv_tokens="auto")
        assert stand.control.budgets.kv.limit is None
        metrics = EngineMetrics(kv_cache_size_tokens=100_000)
        stand.control.status_read(replace(UP, metrics=metrics))
        assert stand.control.budgets.kv.limit == 90_000
        stand.control.status_read(UP)
        assert stand.control.budgets.kv.limit == 90_000, "a page that is lost changes nothing"

    run(scenario())


def test_the_binding_limit_goes_by_what_the_engine_told() -> None:
    async def scenario() -> None:
        stand = Stand()
        assert stand.control.binding_limit().which == "max_in_flight"
        metrics = EngineMetrics(kv_cache_size_tokens=10_000, max_concurrency=5.0)
        stand.control.status_read(replace(UP, metrics=metrics, models=serving("m", 2_000)))
        assert stand.control.binding_limit().which == "kv_tokens"

    run(scenario())


def test_without_a_poller_the_engine_is_taken_for_ready() -> None:
    async def scenario() -> None:
        stand = Stand()
        assert stand.control.state().ready
        assert stand.control.view().up is None

    run(scenario())


# What it serves ---------------------------------------------------------------------------------


def test_requests_for_its_model_find_it_once_it_has_told() -> None:
    async def scenario() -> None:
        stand = Stand("other", max_in_flight=1)
        stand.controller.serves("other", frozenset({"m1"}))
        stand.control.status_read(replace(UP, models=serving("m2", 64)))
        (holder,) = await stand.ask(model="m2")
        assert holder.permit is not None
        assert holder.permit.upstream == "engine"
        assert stand.control.model_len == 64
        await stand.close()

    run(scenario())


def test_an_engine_that_comes_up_with_another_model_gets_nothing_of_the_old_one() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        for name in ("other", "engine"):
            stand.controller.serves(name, frozenset({"m1"}))
        stand.control.status_changed(DOWN)
        holders = await stand.ask(3, model="m1")
        stand.control.status_changed(replace(UP, models=serving("m2")))
        await turns()
        assert [holder.permit is not None for holder in holders] == [True, False, False]
        await stand.close()

    run(scenario())


def test_down_it_tells_of_no_model_and_stays_where_it_was() -> None:
    async def scenario() -> None:
        stand = Stand()
        stand.control.status_read(replace(UP, models=serving("m")))
        stand.control.status_changed(DOWN)
        assert stand.control.models == ()
        assert stand.control.last_served == serving("m")
        (holder,) = await stand.ask(model="m")
        assert holder.reason is Reason.UPSTREAM_UNAVAILABLE
        await stand.close()

    run(scenario())


# Coming and going -------------------------------------------------------------------------------


def test_one_that_nobody_has_seen_yet_gets_no_request_before_its_first_poll() -> None:
    async def scenario() -> None:
        stand = Stand(joins=False)
        stand.control.join(unseen=True)
        (holder,) = await stand.ask()
        assert holder.permit is None
        assert holder.refusal is None, "it waits"
        assert not stand.control.seen.is_set()
        stand.control.status_read(replace(UP, models=serving("m")))
        await turns()
        assert holder.permit is not None
        assert stand.control.seen.is_set()
        assert stand.control.limit.seats == 2, "its seats open one after the other"
        await stand.close()

    run(scenario())


def test_one_that_is_down_when_it_is_first_seen_gets_none() -> None:
    async def scenario() -> None:
        stand = Stand(joins=False)
        stand.control.join(unseen=True)
        stand.control.status_changed(DOWN)
        stand.control.status_read(DOWN)
        (holder,) = await stand.ask()
        assert holder.reason is Reason.UPSTREAM_UNAVAILABLE
        stand.control.status_changed(UP)
        (holder,) = await stand.ask()
        assert holder.permit is not None
        await stand.close()

    run(scenario())


def test_a_poller_that_still_talks_of_one_that_has_left_does_no_harm() -> None:
    async def scenario() -> None:
        stand, empty = Stand(), asyncio.Event()
        (holder,) = await stand.ask()
        stand.control.leave(empty.set)
        for status in (DOWN, replace(UP, models=serving("m")), STALLED):
            stand.control.status_changed(status)
            stand.control.status_read(status)
        stand.control.report(GONE)
        stand.control.report(500)
        assert not empty.is_set()
        assert stand.control.in_flight == 1
        holder.finish()
        await turns()
        assert empty.is_set()
        stand.control.status_changed(UP)
        stand.control.status_read(UP)
        assert stand.control.in_flight == 0
        await stand.close()

    run(scenario())


@pytest.mark.parametrize("is_empty", [True, False])
def test_one_that_comes_back_is_what_it_has_become_meanwhile(is_empty: bool) -> None:
    async def scenario() -> None:
        stand = Stand()
        holders = [] if is_empty else await stand.ask()
        stand.control.leave(lambda: None)
        stand.control.status_changed(DOWN)
        stand.control.join()
        (holder,) = await stand.ask()
        assert holder.reason is Reason.UPSTREAM_UNAVAILABLE
        stand.control.leave(lambda: None)
        stand.control.status_changed(replace(UP, models=serving("m")))
        stand.control.join()
        (holder,) = await stand.ask(model="m")
        assert holder.permit is not None
        assert stand.control.in_flight == 1 + len(holders)
        await stand.close()

    run(scenario())


# What the gateway reports -----------------------------------------------------------------------


def test_one_that_cannot_be_connected_to_is_taken_out_and_comes_back_through_one_request() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        stand.control.report(GONE)
        assert stand.controller.upstream("engine").suspended
        (busy,) = await stand.ask()
        assert busy.permit is not None
        assert busy.permit.upstream == "other"
        waiting = await stand.ask(3)
        await asyncio.sleep(1)
        stand.control.status_read(UP)
        await turns()
        granted = [holder for holder in waiting if holder.permit is not None]
        assert len(granted) == 1, "one to see whether it goes well"
        stand.control.report(None)
        await turns()
        assert stand.control.limit.seats == 2
        await asyncio.sleep(10)
        stand.control.status_read(UP)
        assert stand.control.limit.seats == 20
        await stand.close()

    run(scenario())


@pytest.mark.parametrize(
    "ours",
    [
        UpstreamConnectError("none left", OSError(errno.EMFILE, "Too many open files")),
        UpstreamTimeoutError("the exchange took longer than 60 s", is_ours=True),
    ],
    ids=["no descriptors", "total timeout"],
)
def test_an_engine_is_not_taken_out_for_what_lies_on_our_side(ours: UpstreamError) -> None:
    async def scenario() -> None:
        stand = Stand("other")
        for _ in range(20):
            stand.control.report(ours)
        assert not stand.controller.upstream("engine").suspended
        await stand.close()

    run(scenario())


def test_a_probe_whose_client_leaves_makes_room_for_another() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        await stand.ask()
        stand.control.report(GONE)
        await stand.ask()
        waiting = await stand.ask(2)
        await asyncio.sleep(1)
        stand.control.status_read(UP)
        await turns()
        probes = [holder for holder in stand.holders if _runs_in(holder, "engine")]
        for probe in probes:
            probe.cancel()
        await turns()
        assert any(_runs_in(holder, "engine") for holder in waiting)
        await stand.close()

    run(scenario())


def _runs_in(holder: Holder, upstream: str) -> bool:
    permit = holder.permit
    return permit is not None and permit.ending is None and permit.upstream == upstream


def test_a_probe_that_fails_takes_it_out_again_for_longer() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        stand.control.report(GONE)
        out_s = []
        for _ in range(3):
            began_at = now()
            while stand.controller.upstream("engine").suspended:
                await asyncio.sleep(0.5)
                stand.control.status_read(UP)
            out_s.append(now() - began_at)
            stand.control.report(500)
        assert out_s == [1, 2, 4]

    run(scenario())


def test_many_bad_answers_take_it_out_and_say_why(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        stand = Stand("other")
        with caplog.at_level(logging.WARNING, "sluice.engine"):
            for _ in range(9):
                stand.control.report(500)
            assert not stand.controller.upstream("engine").suspended
            stand.control.report(UpstreamClosedError("it closed"))
        assert stand.controller.upstream("engine").suspended
        why = "engine engine is taken out for 1 s: 10 of the last 10 requests failed, it closed"
        assert why in caplog.text

    run(scenario())


def test_the_only_engine_is_never_taken_out() -> None:
    async def scenario() -> None:
        stand = Stand()
        for _ in range(50):
            stand.control.report(GONE)
            stand.control.report(500)
        (holder,) = await stand.ask()
        assert holder.permit is not None
        await stand.close()

    run(scenario())


def test_one_that_is_out_is_asked_again_when_the_others_are_gone() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        stand.control.report(GONE)
        stand.controller.suspend("other", Reason.UPSTREAM_UNAVAILABLE)
        assert (await stand.ask())[0].reason is Reason.UPSTREAM_UNAVAILABLE
        stand.control.status_read(UP)
        (holder,) = await stand.ask()
        assert holder.permit is not None
        stand.control.report(500)
        assert not stand.controller.upstream("engine").suspended
        await stand.close()

    run(scenario())


def test_one_that_was_down_is_another_engine_that_has_failed_nobody_yet() -> None:
    async def scenario() -> None:
        stand = Stand("other")
        stand.control.report(GONE)
        stand.control.status_changed(DOWN)
        assert stand.controller.upstream("engine").suspended
        stand.control.status_changed(UP)
        assert not stand.controller.upstream("engine").suspended
        assert stand.control.limit.seats == 2, "its seats open one after the other"

    run(scenario())


def test_others_that_are_out_are_called_when_the_last_one_cannot_be_reached() -> None:
    async def scenario() -> None:
        stand, called = Stand("other"), []
        stand.control.attach(stand.controller, None, None, lambda: called.append(now()))
        stand.control.report(GONE)
        assert called == []
        stand.control.ask_again()
        assert stand.control.limit.seats == 1
        stand.controller.suspend("other", Reason.UPSTREAM_UNAVAILABLE)
        stand.control.report(500)
        assert called == []
        stand.control.report(GONE)
        assert called == [0]
        assert not stand.controller.upstream("engine").suspended, "nobody came"

    run(scenario())


class Lease(MovableLimit):
    """Of a limit of 20 seats that gateways share."""

    def __init__(self, seats: int) -> None:
        super().__init__(seats, ceiling=20, shared=True)

    def set(self, seats: int) -> None:
        self.seats = seats


def leased(seats: int, **values: object) -> EngineControl:
    given: dict[str, Any] = {"max_in_flight": 20, **values}
    clock = asyncio.get_running_loop().time
    return EngineControl("engine", Settings(**given), clock, lease=Lease(seats))


def test_where_the_limit_is_shared_the_lease_is_the_limit_also_of_an_adaptive_one() -> None:
    async def scenario() -> None:
        assert leased(6).limit.seats == 6
        assert leased(6, adaptive=True).limit.seats == 6
        assert leased(30, adaptive=True).limit.seats == 20

    run(scenario())


def test_an_engine_needs_what_runs_and_what_waits_for_it() -> None:
    async def scenario() -> None:
        stand = Stand()
        await stand.ask(25)
        assert stand.control.demand()[:3] == (20, 5, 1)
        stand.control.status_changed(DOWN)
        assert stand.control.demand()[:3] == (20, 0, 0)
        await stand.close()

    run(scenario())


def test_an_adaptive_limit_needs_no_seats_that_it_would_not_use() -> None:
    async def scenario() -> None:
        stand = Stand(adaptive=True)
        await stand.ask(25)
        assert stand.control.demand().waiting == 0
        await stand.close()

    run(scenario())
