"""/healthz and /readyz: is the process alive, and may a load balancer send requests here?

Neither asks the engine anything when it is called, and neither is ever gated: a saturated gateway
is alive and ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.edge.drain import Drain
    from proxy.edge.engine import Engine, EngineState

_PROBE_METHODS = ["GET", "HEAD"]


def health_router(engines: Mapping[str, Engine], drain: Drain) -> APIRouter:
    """Answers 200 or 503, with the reason in words."""
    router = APIRouter()

    @router.api_route("/healthz", methods=_PROBE_METHODS)
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "alive"})

    @router.api_route("/readyz", methods=_PROBE_METHODS)
    async def readyz() -> JSONResponse:
        states = {name: engine.state() for name, engine in engines.items()}
        if drain.begun:
            return _not_ready("draining: this gateway is shutting down", states)
        if not any(state.ready for state in states.values()):
            return _not_ready("; ".join(_reasons(states)), states)
        return JSONResponse({"status": "ready", "engines": _described(states)})

    return router


def engine_trouble(engines: Mapping[str, Engine]) -> Callable[[], str]:
    """Says, when called, why the engines cannot be used."""

    def trouble() -> str:
        return "; ".join(_reasons({name: engine.state() for name, engine in engines.items()}))

    return trouble


def _not_ready(reason: str, states: Mapping[str, EngineState]) -> JSONResponse:
    body = {"status": "not ready", "reason": reason, "engines": _described(states)}
    return JSONResponse(body, status_code=503)


def _reasons(states: Mapping[str, EngineState]) -> list[str]:
    return [f"{name}: {state.reason}" for name, state in states.items() if not state.ready]


def _described(states: Mapping[str, EngineState]) -> dict[str, dict[str, object]]:
    return {name: {"up": state.up, "reason": state.reason} for name, state in states.items()}
