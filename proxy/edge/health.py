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

    from proxy.edge.engine import Engine, EngineState

_PROBE_METHODS = ["GET", "HEAD"]
_NO_ENGINE = "no engine is known"


def health_router(
    engine_states: Callable[[], Mapping[str, EngineState]],
    draining: Callable[[], bool],
    without_engines: str = _NO_ENGINE,
) -> APIRouter:
    """Answers 200 or 503, with the reason in words; `without_engines` where there is none."""
    router = APIRouter()

    @router.api_route("/healthz", methods=_PROBE_METHODS)
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "alive"})

    @router.api_route("/readyz", methods=_PROBE_METHODS)
    async def readyz() -> JSONResponse:
        states = engine_states()
        if draining():
            return _not_ready("draining: this gateway takes no new requests", states)
        if not any(state.ready for state in states.values()):
            return _not_ready(_trouble(states, without_engines), states)
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


def _trouble(states: Mapping[str, EngineState], without_engines: str = _NO_ENGINE) -> str:
    if not states:
        return without_engines
    return "; ".join(f"{name}: {state.reason}" for name, state in states.items() if not state.ready)


def _described(states: Mapping[str, EngineState]) -> dict[str, dict[str, object]]:
    return {name: {"up": state.up, "reason": state.reason} for name, state in states.items()}
