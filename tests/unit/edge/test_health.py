from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.edge.drain import Drain
from proxy.edge.engine import Engine, EngineState
from proxy.edge.health import engine_trouble, health_router
from proxy.edge.local_apps import public_app
from proxy.upstream.address import UpstreamAddress
from tests.support.asgi_transport import AsgiClient
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import ScriptedApp
from tests.support.virtual_time import run

UP = EngineState(True, True, "")
DOWN = EngineState(False, False, "connection refused")
UNKNOWN = EngineState(None, False, "not asked yet")
REFUSES_KEY = EngineState(True, False, "answers 401: SLUICE_UPSTREAM_API_KEY is wrong")


def engines(**states: EngineState) -> dict[str, Engine]:
    address = UpstreamAddress.parse("http://engine.test")
    upstream = InMemoryUpstream(ScriptedApp())
    return {
        name: Engine(name, address, upstream, None, lambda state=state: state)
        for name, state in states.items()
    }


Answer = tuple[int, dict[str, Any]]


def ask(
    path: bytes,
    drain: Drain | None = None,
    method: str = "GET",
    *,
    names: bool = True,
    bar: str = "",
    **states: EngineState,
) -> Answer:
    """Status and decoded body."""
    begun = drain or Drain()
    app = public_app(
        health_router(lambda: states, lambda: begun.begun, bar=lambda: bar, names_engines=names)
    )

    async def scenario() -> Answer:
        answer = await AsgiClient(app).request(method, path)
        assert answer.header("content-type") == "application/json"
        return answer.status, json.loads(answer.body)

    return run(scenario())


@pytest.mark.parametrize("state", [UP, DOWN, UNKNOWN, REFUSES_KEY])
def test_the_process_is_alive_whatever_the_engine_does(state: EngineState) -> None:
    assert ask(b"/healthz", engine=state) == (200, {"status": "alive"})


def test_a_draining_process_is_alive_and_not_ready() -> None:
    drain = Drain()
    drain.begin()
    assert ask(b"/healthz", drain, engine=UP)[0] == 200
    status, body = ask(b"/readyz", drain, engine=UP)
    assert status == 503
    assert "draining" in body["reason"]


def test_it_is_ready_with_an_engine_that_is() -> None:
    assert ask(b"/readyz", engine=UP) == (
        200,
        {"status": "ready", "engines": {"engine": {"up": True, "reason": ""}}},
    )


@pytest.mark.parametrize("state", [DOWN, UNKNOWN, REFUSES_KEY])
def test_it_is_not_ready_without_and_says_why(state: EngineState) -> None:
    status, body = ask(b"/readyz", engine=state)
    assert status == 503
    assert body["status"] == "not ready"
    assert body["reason"] == f"engine: {state.reason}"
    assert body["engines"] == {"engine": {"up": state.up, "reason": state.reason}}


def test_one_ready_engine_of_several_is_enough() -> None:
    status, body = ask(b"/readyz", one=DOWN, other=UP)
    assert status == 200
    assert set(body["engines"]) == {"one", "other"}


def test_of_several_that_are_not_ready_each_says_why() -> None:
    _, body = ask(b"/readyz", one=DOWN, other=UNKNOWN)
    assert body["reason"] == "one: connection refused; other: not asked yet"


def test_with_engines_and_no_seat_to_give_out_it_is_alive_and_not_ready() -> None:
    bar = "the store at 10.0.0.7 answers: no password"
    assert ask(b"/healthz", bar=bar, engine=UP)[0] == 200
    status, body = ask(b"/readyz", bar=bar, engine=UP)
    assert (status, body["reason"]) == (503, bar)
    status, body = ask(b"/readyz", bar=bar, names=False, engine=UP)
    assert status == 503
    assert body["reason"] == "no seat may be given out: the gateways' store does not answer"


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
def test_probes_may_ask_for_the_head_only(path: bytes) -> None:
    assert ask(path, method="HEAD", engine=UP)[0] == 200  # the server leaves the body out


def test_without_any_engine_it_is_not_ready_and_says_so() -> None:
    status, body = ask(b"/readyz")
    assert (status, body["reason"], body["engines"]) == (503, "no engine is known", {})


def test_whoever_asks_for_others_says_what_it_means_that_there_is_none() -> None:
    app = public_app(health_router(dict, lambda: False, "no worker serves", names_engines=True))

    async def scenario() -> object:
        return json.loads((await AsgiClient(app).request("GET", b"/readyz")).body)["reason"]

    assert run(scenario()) == "no worker serves"


def trouble(model: str | None = None, **states: EngineState) -> str:
    known = engines(**states)
    serving = {"small": ["one"], "large": ["other"]}
    return engine_trouble(lambda model: [known[name] for name in serving.get(model or "", known)])(
        model
    )


def test_clients_are_told_what_is_wrong_and_not_where_engines_are() -> None:
    assert ask(b"/readyz", names=False, engine=UP) == (200, {"status": "ready"})
    assert ask(b"/readyz", names=False, engine=REFUSES_KEY) == (
        503,
        {"status": "not ready", "reason": REFUSES_KEY.reason},
    )
    _, body = ask(b"/readyz", names=False, one=DOWN, two=DOWN, three=UNKNOWN)
    assert body["reason"] == "2 of 3: connection refused; 1 of 3: not asked yet"
    assert ask(b"/readyz", names=False)[1]["reason"] == "no engine is known"


def test_trouble_is_counted_where_there_are_several_engines() -> None:
    assert trouble(one=DOWN) == "connection refused"
    assert trouble(one=DOWN, other=UP) == "1 of 2: connection refused"
    assert trouble(one=UP, other=UP) == ""


def test_of_a_model_only_the_trouble_of_its_engines_is_told() -> None:
    assert trouble("small", one=DOWN, other=UNKNOWN) == "connection refused"
    assert trouble("large", one=DOWN, other=UNKNOWN) == "not asked yet"
    assert trouble("unknown", one=DOWN, other=UNKNOWN) == (
        "1 of 2: connection refused; 1 of 2: not asked yet"
    )


def test_that_there_is_no_engine_is_trouble() -> None:
    assert trouble() == "no engine is known"
