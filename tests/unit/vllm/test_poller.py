"""Watching an engine, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from proxy.admission.saturation import Saturation
from proxy.vllm.metrics_page import EngineMetrics
from proxy.vllm.poller import EnginePoller, EngineStatus
from proxy.vllm.silence import Held
from tests.support.engine_transport import ScriptedEngine, garbage, late, ok, refused, status
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.engine_transport import Answering

PAGE = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n"


def healthy(page: bytes = PAGE) -> ScriptedEngine:
    return ScriptedEngine({"/health": ok(), "/metrics": ok(page), "/v1/models": ok()})


@asynccontextmanager
async def watching(
    engine: ScriptedEngine,
    api_key: str | None = None,
    on_change: Callable[[EngineStatus], None] | None = None,
    on_reading: Callable[[EngineStatus], None] | None = None,
    holding: Callable[[], Held] = lambda: Held(1),
    heard: Callable[[], bool] = lambda: False,
    on_wait: Callable[[], None] = lambda: None,
    *,
    wants_models: bool = False,
) -> AsyncIterator[EnginePoller]:
    poller = EnginePoller(
        "http://engine",
        api_key,
        on_change,
        on_reading,
        holding,
        heard,
        on_wait,
        wants_models=wants_models,
        transport=engine,
    )
    poller.start()
    try:
        yield poller
    finally:
        await poller.stop()


def test_before_the_first_answer_nothing_is_known_and_nothing_is_refused() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": late(3.0)})
        async with watching(engine) as poller:
            await asyncio.sleep(1.0)
            assert poller.status == EngineStatus(
                up=None, ready=False, reason="not asked yet", metrics=None, metrics_age_s=None
            )
            assert not poller.status.refuses

    run(scenario())


def test_an_engine_that_answers_is_up_and_tells_its_figures() -> None:
    async def scenario() -> None:
        async with watching(healthy()) as poller:
            await asyncio.sleep(0.5)
            assert poller.status == EngineStatus(
                up=True,
                ready=True,
                reason="GET /health answers 200",
                metrics=EngineMetrics(running=3, waiting=1),
                metrics_age_s=0.5,
            )

    run(scenario())


def test_an_engine_is_asked_once_a_second() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine):
            await asyncio.sleep(9.5)
            assert engine.count("/health") == engine.count("/metrics") == 10

    run(scenario())


def test_an_engine_that_is_gone_is_down_and_requests_may_be_refused() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            engine.answers["/health"] = refused
            await asyncio.sleep(1.0)
            assert poller.status == EngineStatus(
                up=False,
                ready=False,
                reason="connection refused (ECONNREFUSED)",
                metrics=None,
                metrics_age_s=None,
            )
            assert poller.status.refuses

    run(scenario())


def test_an_engine_that_returns_is_noticed_well_within_a_second() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": refused, "/metrics": ok(PAGE)})
        async with watching(engine) as poller:
            await asyncio.sleep(10.1)
            assert poller.status.up is False
            engine.answers["/health"] = ok()
            await asyncio.sleep(0.3)
            assert poller.status.up is True
            assert poller.status.metrics is not None

    run(scenario())


def test_a_slow_engine_is_not_down_however_long() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            engine.answers["/health"] = late(3600.0)
            await asyncio.sleep(600.0)
            assert poller.status.up is True
            assert poller.status.ready
            assert poller.status.reason == "no answer within 5 s"

    run(scenario())


def test_a_dead_engine_is_not_taken_for_alive_because_it_got_slow() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": status(503)})
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            engine.answers["/health"] = late(3600.0)
            await asyncio.sleep(60.0)
            assert poller.status.up is False

    run(scenario())


def test_one_garbled_answer_is_forgiven_and_a_second_is_not() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            engine.answers["/health"] = garbage
            await asyncio.sleep(1.0)
            assert poller.status.up is True
            await asyncio.sleep(1.0)
            assert poller.status.up is False

    run(scenario())


@pytest.mark.parametrize(
    "metrics", [status(404), status(500, PAGE), garbage, refused, late(3600.0), ok(b"<html>")]
)
def test_losing_the_metrics_page_loses_only_the_figures(metrics: Answering) -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": ok(), "/metrics": metrics})
        async with watching(engine) as poller:
            await asyncio.sleep(30.0)
            assert poller.status.ready
            assert poller.status.metrics is None

    run(scenario())


def test_figures_that_cannot_be_read_again_grow_old() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            engine.answers["/metrics"] = late(3600.0)
            await asyncio.sleep(30.0)
            assert poller.status.metrics == EngineMetrics(running=3, waiting=1)
            assert poller.status.metrics_age_s == 30.5

    run(scenario())


def test_a_page_without_end_is_not_read() -> None:
    async def scenario() -> None:
        engine = healthy(PAGE + b"#" * (5 * 1024 * 1024))
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            assert poller.status.ready
            assert poller.status.metrics is None

    run(scenario())


def test_a_page_in_another_encoding_is_read_all_the_same() -> None:
    async def scenario() -> None:
        page = b'vllm:num_requests_running{model_name="\xff\xfe"} 3\n'
        async with watching(healthy(page)) as poller:
            await asyncio.sleep(0.5)
            assert poller.status.metrics == EngineMetrics(running=3)

    run(scenario())


def test_a_refused_key_makes_it_not_ready_and_still_refuses_nobody() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": status(401)})
        async with watching(engine, api_key="wrong") as poller:
            await asyncio.sleep(0.5)
            assert (poller.status.up, poller.status.ready) == (True, False)
            assert "SLUICE_UPSTREAM_API_KEY" in poller.status.reason
            assert not poller.status.refuses

    run(scenario())


def test_without_a_key_an_engine_that_wants_one_is_ready() -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": status(401)})
        async with watching(engine) as poller:
            await asyncio.sleep(0.5)
            assert poller.status.ready

    run(scenario())


def test_a_key_that_is_refused_only_under_v1_is_found_out_and_forgiven() -> None:
    async def scenario() -> None:
        engine = healthy()
        engine.answers["/v1/models"] = status(401)
        async with watching(engine, api_key="wrong") as poller:
            await asyncio.sleep(3.5)
            assert (poller.status.up, poller.status.ready) == (True, False)
            assert "SLUICE_UPSTREAM_API_KEY" in poller.status.reason
            engine.answers["/v1/models"] = ok()
            await asyncio.sleep(1.0)
            assert poller.status.ready

    run(scenario())


MODELS = b'{"data": [{"id": "a", "max_model_len": 2048}, {"id": "b", "max_model_len": 4096}]}'


def test_the_longest_model_length_is_asked_for_now_and_then() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine, wants_models=True) as poller:
            await asyncio.sleep(1)
            assert poller.status.model_len is None
            engine.answers["/v1/models"] = ok(MODELS)
            await asyncio.sleep(31)
            assert poller.status.model_len == 4096
            engine.answers["/v1/models"] = ok(MODELS.replace(b"4096", b"8192"))
            await asyncio.sleep(31)
            assert poller.status.model_len == 8192, "another model, behind the same address"
            engine.answers["/v1/models"] = status(500)
            await asyncio.sleep(31)
            assert poller.status.model_len == 8192

    run(scenario())


def test_another_run_of_the_engine_may_serve_another_model() -> None:
    async def scenario() -> None:
        engine = healthy()
        engine.answers["/v1/models"] = ok(MODELS)
        async with watching(engine, wants_models=True) as poller:
            await asyncio.sleep(1)
            engine.answers["/health"] = refused
            await asyncio.sleep(2)
            assert poller.status.model_len is None

    run(scenario())


def test_an_engine_that_comes_up_has_told_what_it_serves_by_then() -> None:
    heard: list[tuple[bool | None, list[str]]] = []

    def hear(status: EngineStatus) -> None:
        heard.append((status.up, [model.id for model in status.models]))

    async def scenario() -> None:
        engine = healthy()
        engine.answers["/v1/models"] = ok(MODELS)
        async with watching(engine, on_change=hear, wants_models=True):
            await asyncio.sleep(1)
            engine.answers["/health"] = refused
            await asyncio.sleep(2)
            engine.answers["/health"] = ok()
            engine.answers["/v1/models"] = ok(b'{"data": [{"id": "another"}]}')
            await asyncio.sleep(2)

    run(scenario())
    before, down, after = heard
    assert down == (False, [])
    assert (before[0], after) == (True, (True, ["another"]))
    assert before[1] not in ([], ["another"])


def test_a_good_key_is_checked_seldom_and_without_a_key_never() -> None:
    async def scenario(key: str | None) -> int:
        engine = healthy()
        async with watching(engine, api_key=key):
            await asyncio.sleep(59.5)
            assert {request.headers.get("authorization") for request in engine.asked} == {
                key and f"Bearer {key}"
            }
            return engine.count("/v1/models")

    assert run(scenario("good")) == 6
    assert run(scenario(None)) == 0


def test_every_change_is_told_once() -> None:
    async def scenario() -> None:
        told: list[EngineStatus] = []
        engine = ScriptedEngine({"/health": refused})
        async with watching(engine, on_change=told.append):
            await asyncio.sleep(5.0)
            engine.answers["/health"] = ok()
            await asyncio.sleep(5.0)
            engine.answers["/health"] = status(503)
            await asyncio.sleep(5.0)
        assert [(one.up, one.reason) for one in told] == [
            (False, "connection refused (ECONNREFUSED)"),
            (True, "GET /health answers 200"),
            (False, "GET /health answers 503"),
        ]

    run(scenario())


def test_a_listener_that_fails_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: EngineStatus) -> None:
        raise RuntimeError("a defect elsewhere")

    async def scenario() -> None:
        engine = healthy()
        async with watching(engine, on_change=fails) as poller:
            await asyncio.sleep(1.5)
            engine.answers["/health"] = refused
            await asyncio.sleep(1.5)
            assert poller.status.up is False

    with caplog.at_level(logging.ERROR, "sluice.engine"):
        run(scenario())
    assert "polling failed" in caplog.text


def test_going_down_and_coming_back_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        engine = ScriptedEngine({"/health": refused})
        async with watching(engine):
            await asyncio.sleep(5.0)
            engine.answers["/health"] = ok()
            await asyncio.sleep(5.0)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "engine http://engine is down: connection refused (ECONNREFUSED)"),
        ("INFO", "engine http://engine is ready: GET /health answers 200"),
    ]


STUCK = b"vllm:num_requests_running 3\nvllm:iteration_tokens_total_count 70\n"
MOVED = b"vllm:num_requests_running 3\nvllm:iteration_tokens_total_count 71\n"


def test_an_engine_that_does_not_move_is_up_and_stalled_and_refuses() -> None:
    async def scenario() -> None:
        told: list[EngineStatus] = []
        engine = healthy(STUCK)
        async with watching(engine, on_change=told.append) as poller:
            await asyncio.sleep(9.5)
            assert poller.status.ready
            await asyncio.sleep(1.0)
            status = poller.status
            assert (status.up, status.stalled, status.ready) == (True, True, False)
            assert status.refuses
            assert status.reason == "no step in 10 s while 3 requests run"
            assert status.metrics == EngineMetrics(running=3, iterations_total=70)
            engine.answers["/metrics"] = ok(MOVED)
            await asyncio.sleep(1.0)
            assert poller.status.ready
            assert not poller.status.refuses
        assert [(one.stalled, one.ready) for one in told] == [
            *((False, True), (True, False), (False, True))
        ]

    run(scenario())


@pytest.mark.parametrize("held", [Held(0), Held(0, seatless=3)])
def test_an_engine_that_is_asked_nothing_that_runs_there_is_not_stalled(held: Held) -> None:
    async def scenario() -> None:
        async with watching(healthy(STUCK), holding=lambda: held) as poller:
            await asyncio.sleep(600.0)
            assert poller.status.ready

    run(scenario())


def test_an_engine_that_answers_late_or_no_more_is_not_stalled() -> None:
    async def scenario() -> None:
        engine = healthy(STUCK)
        async with watching(engine) as poller:
            await asyncio.sleep(3.5)
            engine.answers["/health"] = late(4.9)
            engine.answers["/metrics"] = late(1.9, body=STUCK)
            await asyncio.sleep(14.0)  # two pages in this time
            assert poller.status.ready
            engine.answers["/metrics"] = late(3600.0)
            await asyncio.sleep(600.0)
            assert poller.status.ready

    run(scenario())


def test_a_stalled_engine_that_dies_is_down_and_no_longer_stalled() -> None:
    async def scenario() -> None:
        engine = healthy(STUCK)
        async with watching(engine) as poller:
            await asyncio.sleep(11.5)
            assert poller.status.stalled
            engine.answers["/health"] = refused
            await asyncio.sleep(1.0)
            assert (poller.status.up, poller.status.stalled) == (False, False)
            assert poller.status.reason == "connection refused (ECONNREFUSED)"

    run(scenario())


def test_a_stall_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with watching(healthy(STUCK)):
            await asyncio.sleep(11.5)

    with caplog.at_level(logging.INFO, "sluice.engine"):
        run(scenario())
    assert caplog.records[-1].message == (
        "engine http://engine is stalled: no step in 10 s while 3 requests run"
    )


def test_every_poll_is_told_whatever_came_of_it() -> None:
    async def scenario() -> None:
        told: list[EngineStatus] = []
        engine = healthy()
        async with watching(engine, on_reading=told.append):
            await asyncio.sleep(1.5)
            engine.answers["/metrics"] = status(500)
            await asyncio.sleep(1.0)
            engine.answers["/health"] = refused
            await asyncio.sleep(0.6)
        assert [one.up for one in told] == [True, True, True, False]
        assert [one.metrics_age_s for one in told] == [0.0, 0.0, 1.0, None]

    run(scenario())


def test_while_an_answer_is_awaited_it_is_said_each_second_that_time_goes_on() -> None:
    async def scenario() -> None:
        at: list[float] = []
        engine = healthy()
        async with watching(engine, on_wait=lambda: at.append(now())):
            await asyncio.sleep(2.5)
            assert at == []
            engine.answers["/health"] = late(3.5)
            await asyncio.sleep(4.0)  # asked at 3 s, answered at 6.5 s
            assert at == pytest.approx([4, 5, 6])
            engine.answers["/health"] = ok()
            await asyncio.sleep(5.0)
            assert len(at) == 3

    run(scenario())


def test_bytes_end_a_silence_at_once_and_that_is_told_once() -> None:
    async def scenario() -> None:
        told: list[tuple[float, bool]] = []
        engine = healthy()
        life = [False]
        async with watching(
            engine,
            on_change=lambda status: told.append((now(), status.stalled)),
            heard=lambda: bool(life and life.pop()),
        ):
            await asyncio.sleep(1.5)
            engine.answers["/health"] = engine.answers["/metrics"] = late(3600.0)
            await asyncio.sleep(58.5)
            (_, (stalled_at, stalled)) = told
            assert stalled
            assert 30 <= stalled_at <= 45
            life.append(True)
            await asyncio.sleep(20)
            (_, _, (back_at, stalled)) = told
            assert not stalled
            assert 60 <= back_at <= 61

    run(scenario())


def test_two_pages_together_say_how_full_the_engine_is() -> None:
    async def scenario() -> None:
        told: list[Saturation | None] = []
        engine = healthy()
        async with watching(engine, on_reading=lambda status: told.append(status.saturation)):
            await asyncio.sleep(1.5)
            engine.answers["/metrics"] = late(3600.0)
            await asyncio.sleep(3.0)
        assert told == [None, Saturation(waiting=1), None]

    run(scenario())


def test_stopping_leaves_no_task_and_may_be_said_twice() -> None:
    async def scenario() -> None:
        poller = EnginePoller("http://engine", transport=healthy())
        await poller.stop()
        poller.start()
        await asyncio.sleep(2.5)
        await poller.stop()
        await poller.stop()

    run(scenario())  # which fails when a task is left over


def test_starting_twice_is_a_defect() -> None:
    async def scenario() -> None:
        async with watching(healthy()) as poller:
            with pytest.raises(RuntimeError):
                poller.start()

    run(scenario())


def test_an_engine_that_moves_is_asked_there_at_once_and_what_it_was_is_forgotten() -> None:
    async def scenario() -> None:
        engine = healthy()
        engine.answers["/health"] = late(4.0)
        async with watching(engine) as poller:
            await asyncio.sleep(4.5)
            assert poller.status.metrics is not None
            await asyncio.sleep(1.5)  # the next question is under way
            poller.move("10.0.0.2")
            assert (poller.status.metrics, poller.status.up) == (None, True)
            engine.answers["/health"] = ok()
            await asyncio.sleep(0.1)
            assert poller.status.metrics is not None
            assert [request.url.host for request in engine.asked[-2:]] == ["10.0.0.2"] * 2

    run(scenario())


def test_one_that_is_stalled_and_moves_is_told_to_be_so_no_more() -> None:
    async def scenario() -> None:
        told: list[tuple[bool, bool]] = []
        async with watching(
            healthy(STUCK), on_change=lambda status: told.append((status.ready, status.stalled))
        ) as poller:
            await asyncio.sleep(10.5)
            assert told[-1] == (False, True)
            poller.move("10.0.0.2")
            assert told[-1] == (True, False)

    run(scenario())


def test_a_poller_that_moves_before_it_starts_asks_nothing_yet() -> None:
    async def scenario() -> None:
        engine = healthy()
        poller = EnginePoller("http://engine", transport=engine)
        poller.move("10.0.0.2")
        await asyncio.sleep(5)
        assert engine.asked == []
        poller.start()
        await asyncio.sleep(5)
        await poller.stop()
        assert {request.url.host for request in engine.asked} == {"10.0.0.2"}

    run(scenario())


def test_log_lines_call_the_engine_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        poller = EnginePoller("http://vllm", name="http://vllm#10.0.0.2", transport=healthy())
        poller.start()
        await asyncio.sleep(1)
        await poller.stop()
        assert caplog.messages[0].startswith("engine http://vllm#10.0.0.2 is ready")

    caplog.set_level(logging.INFO, logger="sluice.engine")
    run(scenario())


def test_told_that_the_engine_has_changed_it_looks_at_once() -> None:
    async def scenario() -> None:
        engine = healthy()
        async with watching(engine) as poller:
            await asyncio.sleep(0.1)
            assert poller.status.up
            engine.answers["/health"] = refused
            poller.look_now()
            await asyncio.sleep(0.01)
            assert poller.status.up is False

    run(scenario())


def test_who_does_not_look_is_not_made_to() -> None:
    async def scenario() -> None:
        engine = healthy()
        poller = EnginePoller("http://engine", None, transport=engine)
        poller.look_now()
        await asyncio.sleep(5.0)
        assert poller.status.up is None

    run(scenario())
