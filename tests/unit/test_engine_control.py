"""What the poller reads, turned into suspensions and limits that move."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Reason
from proxy.admission.request import AdmissionRequest as Request
from proxy.admission.saturation import Saturation
from proxy.engine_control import EngineControl
from proxy.openai_api.measure import Measured
from proxy.settings import Settings
from proxy.vllm.metrics_page import EngineMetrics
from proxy.vllm.poller import EngineStatus
from tests.support.admission import Holder, RecordingObserver, turns
from tests.support.virtual_time import now, run

pytestmark = pytest.mark.usefixtures("clean_environment")

UP = EngineStatus(up=True, ready=True, reason="fine", metrics=None, metrics_age_s=None)
DOWN = replace(UP, up=False, ready=False, reason="connection refused")
STALLED = replace(UP, stalled=True, ready=False, reason="no progress")


class Stand:
    """A control and its controller on the running loop's clock."""

    def __init__(self, **values: object) -> None:
        given: dict[str, Any] = {"max_in_flight": 20, "max_queue_depth": 50, **values}
        clock = asyncio.get_running_loop().time
        self.control = EngineControl("engine", Settings(**given), clock)
        self.controller = AdmissionController(
            {"engine": self.control.limit},
            50,
            clock,
            RecordingObserver(),
            token_budgets={"engine": self.control.budgets},
        )
        self.control.attach(self.controller, None)
        self.holders: list[Holder] = []

    async def ask(self, count: int = 1) -> list[Holder]:
        asked = [Holder(self.controller, Request(1, now() + 60)) for _ in range(count)]
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


def test_tokens_are_metered_only_where_a_token_limit_is_set() -> None:
    async def scenario() -> None:
        assert Stand().control.meter is None
        assert Stand(max_prefill_tokens=1000).control.meter is not None
        assert Stand(max_kv_tokens="auto").control.meter is not None

    run(scenario())


def test_a_prompt_longer_than_the_model_is_known_once_the_engine_told_its_length() -> None:
    async def scenario() -> None:
        stand = Stand(max_prefill_tokens=1000)
        meter = stand.control.meter
        assert meter is not None
        ids = Measured(
            seats=1, prompt_token_ids=70, longest_prompt_token_ids=70, max_tokens=1, prompts=1
        )
        assert meter.exceeded_length(ids) is None
        stand.control.status_read(replace(UP, model_len=64))
        assert meter.exceeded_length(ids) == 64

    run(scenario())


def test_the_binding_limit_goes_by_what_the_engine_told() -> None:
    async def scenario() -> None:
        stand = Stand()
        assert stand.control.binding_limit().which == "max_in_flight"
        metrics = EngineMetrics(kv_cache_size_tokens=10_000, max_concurrency=5.0)
        stand.control.status_read(replace(UP, metrics=metrics, model_len=2_000))
        assert stand.control.binding_limit().which == "kv_tokens"

    run(scenario())


def test_without_a_poller_the_engine_is_taken_for_ready() -> None:
    async def scenario() -> None:
        stand = Stand()
        assert stand.control.state().ready
        assert stand.control.view().up is None

    run(scenario())
