"""/healthz and /readyz: is the process alive, and may a load balancer send requests here?

Neither asks the engine anything when it is called, and neither is ever gated: a saturated gateway
is alive and ready. Where the engines are is told on the admin listener only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from proxy.edge.engine import Engine, EngineState

_PROBE_METHODS = ["GET", "HEAD"]
_NO_ENGINE = "no engine is known"
_NO_SEAT = "no seat may be given out: the gateways' store does not answer"


def health_router(
    engine_states: Callable[[], Mapping[str, EngineState]],
    draining: Callable[[], bool],
    without_engines: str = _NO_ENGINE,
    *,
    bar: Callable[[], str] = str,
    names_engines: bool,
) -> APIRouter:
    """Answers 200 or 503, with the reason in words; `without_engines` where there is none.

    `bar` says why nobody can be let in though there are engines; nothing, if somebody can.
    `names_engines`: for those who run them. Clients are not told where engines and stores are.
    """
    router = APIRouter()

    @router.api_route("/healthz", methods=_PROBE_METHODS)
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "alive"})

    @router.api_route("/readyz", methods=_PROBE_METHODS)
    async def readyz() -> JSONResponse:
        states = engine_states()
        described = {"engines": _described(states)} if names_engines else {}
        reason = ""
        if draining():
            reason = "draining: this gateway takes no new requests"
        elif not any(state.ready for state in states.values()):
            reason = (_trouble if names_engines else _nameless_trouble)(states) or without_engines
        elif barred := bar():
            reason = barred if names_engines else _NO_SEAT
        if not reason:
            return JSONResponse({"status": "ready", **described})
        return JSONResponse({"status": "not ready", "reason": reason, **described}, 503)

    return router


def engine_trouble(
    serving: Callable[[str | None], Iterable[Engine]],
) -> Callable[[str | None], str]:
    """Says, when called with a model, why the engines that serve it cannot be used: for clients."""

    def trouble(model: str | None) -> str:
        states = {engine.name: engine.state() for engine in serving(model)}
        return _nameless_trouble(states) if states else _NO_ENGINE

    return trouble


def _trouble(states: Mapping[str, EngineState]) -> str:
    return "; ".join(f"{name}: {state.reason}" for name, state in states.items() if not state.ready)


def _nameless_trouble(states: Mapping[str, EngineState]) -> str:
    """What several have in common is said once."""
    reasons = Counter(state.reason for state in states.values() if not state.ready)
    if len(states) == 1:
        return "".join(reasons)
    return "; ".join(f"{count} of {len(states)}: {reason}" for reason, count in reasons.items())


def _described(states: Mapping[str, EngineState]) -> dict[str, dict[str, object]]:
    return {name: {"up": state.up, "reason": state.reason} for name, state in states.items()}
