"""What an engine tells when it is asked once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.vllm.inspection import EngineReport, ServedModel, inspect_engine
from tests.support.engine_transport import (
    ScriptedEngine,
    garbage,
    late,
    ok,
    refused,
    sluice,
    status,
)
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from tests.support.engine_transport import Answering

_PAGE = (Path(__file__).parent / "pages" / "vllm-0.32.prom").read_bytes()
_MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "max_model_len": 2048}]}


def inspect(answers: Mapping[str, Answering], api_key: str | None = None) -> EngineReport:
    return run(inspect_engine("http://engine", api_key, transport=ScriptedEngine(answers)))


def as_json(value: object) -> Answering:
    return ok(json.dumps(value).encode())


def test_a_vllm_tells_everything() -> None:
    report = inspect(
        {
            "/health": ok(),
            "/version": as_json({"version": "0.32.0"}),
            "/v1/models": as_json(_MODELS),
            "/metrics": ok(_PAGE),
        }
    )
    assert report == EngineReport(
        up=True,
        key_refused=False,
        reason="GET /health answers 200",
        version="0.32.0",
        models=(ServedModel("tiny", 2048),),
        kv_cache_tokens=1_048_576,
        max_concurrency=512,
    )


def test_an_engine_that_is_not_there_is_asked_nothing_more() -> None:
    assert inspect({"/health": refused}) == EngineReport(
        up=False, key_refused=False, reason="connection refused (ECONNREFUSED)"
    )


@pytest.mark.parametrize("health", [late(60.0), garbage, status(503)])
def test_an_engine_that_does_not_answer_well_is_not_up(health: Answering) -> None:
    assert not inspect({"/health": health}).up


def test_what_an_engine_does_not_tell_is_unknown() -> None:
    assert inspect({}) == EngineReport(up=True, key_refused=False, reason="GET /health answers 404")


@pytest.mark.parametrize("path", ["/health", "/version", "/metrics"])
def test_a_gateway_at_an_engines_address_is_known_by_any_answer_of_its_own(path: str) -> None:
    report = inspect({"/health": ok(), path: sluice})
    assert (report.up, report.is_sluice) == (True, True)
    assert not inspect({"/health": ok()}).is_sluice


def test_a_gateway_that_answers_503_is_known_though_it_is_not_up() -> None:
    async def draining(request: httpx.Request) -> httpx.Response:
        answer = await sluice(request)
        answer.status_code = 503
        return answer

    report = inspect({"/health": draining})
    assert (report.up, report.is_sluice) == (False, True)
    assert report.reason == "GET /health answers 503 from a Sluice gateway, no engine"


def test_a_model_without_a_length_is_still_a_model() -> None:
    cards = [{"id": "a"}, {"id": "b", "max_model_len": "long"}, {"id": 7}, "c"]
    report = inspect({"/v1/models": as_json({"data": cards})})
    assert report.models == (ServedModel("a", None), ServedModel("b", None))


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"data": 1}', b"\xff", b"[" * 100_000])
def test_an_answer_that_is_something_else_tells_nothing(body: bytes) -> None:
    report = inspect({"/version": ok(body), "/v1/models": ok(body), "/metrics": ok(body)})
    assert (report.version, report.models, report.kv_cache_tokens) == (None, (), None)


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_refused_key_is_told_apart_from_an_engine_that_is_away(key: str | None) -> None:
    report = inspect({"/health": ok(), "/v1/models": status(401)}, key)
    assert (report.up, report.key_refused) == (True, True)
    assert "SLUICE_UPSTREAM_API_KEY" in report.reason
