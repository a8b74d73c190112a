"""/healthz and /readyz: is the process alive, and may a load balancer send requests here?

Neither asks the engine anything when it is called, and neither is ever gated: a saturated gateway
is alive and ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
            return _not_ready(_trouble(states), states)
        return JSONResponse({"status": "ready", "engines": _described(states)})

    return router


def engine_trouble(
    serving: Callable[[str | None], Iterable[Engine]],
) -> Callable[[str | None], str]:
    """Says, when called with a model, why the engines that serve it cannot be used."""
    return lambda model: _trouble({engine.name: engine.state() for engine in serving(model)})


def _not_ready(reason: str, states: Mapping[str, EngineState]) -> JSONResponse:
    body = {"status": "not ready", "reason": reason, "engines": _described(states)}
    return JSONResponse(body, status_code=503)


def _trouble(states: Mapping[str, EngineState]) -> str:
    if not states:
        return "no engine is known"
    return "; ".join(f"{name}: {state.reason}" for name, state in states.items() if not state.ready)


def _described(states: Mapping[str, EngineState]) -> dict[str, dict[str, object]]:
    return {name: {"up": state.up, "reason": state.reason} for name, state in states.items()}
