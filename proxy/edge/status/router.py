"""/status for people, /status.json for programs, /status/events for the page to stay current."""

from __future__ import annotations

import asyncio
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, JSONResponse, StreamingResponse

from proxy.edge.status.history import SAMPLE_EVERY_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.edge.status.facts import StatusFacts

# Nothing from anywhere else: the page works without a network, and a stranger's script does not.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def status_router(facts: StatusFacts, is_over: Callable[[], bool]) -> APIRouter:
    """`is_over`: the gateway is about to end, and so must every stream of events."""
    router = APIRouter()
    page = (files("proxy.edge.status") / "page.html").read_text()
    latest = _Latest(facts)

    @router.get("/status")
    async def status_page() -> HTMLResponse:
        return HTMLResponse(page, headers=_HEADERS)

    @router.get("/status.json")
    async def status_json() -> JSONResponse:
        return JSONResponse(facts.everything(), headers={"cache-control": "no-store"})

    @router.get("/status/events")
    async def status_events() -> StreamingResponse:
        return StreamingResponse(
            _events(facts, latest, is_over),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    return router


class _Latest:
    """The event of this moment, made once for all who listen: 500 of them took a third of a core
    while each had its own (2026-12)."""

    def __init__(self, facts: StatusFacts) -> None:
        self._facts = facts
        self._event = b""
        self._good_until = 0.0

    def event(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if now >= self._good_until:
            self._event = _event("now", self._facts.now())
            self._good_until = now + SAMPLE_EVERY_S / 2
        return self._event


async def _events(
    facts: StatusFacts, latest: _Latest, is_over: Callable[[], bool]
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    yield _event("history", facts.history.series())
    while not is_over():
        yield latest.event()
        await asyncio.sleep(SAMPLE_EVERY_S)
    yield _event("now", facts.now())  # the last word is not an old one


def _event(name: str, content: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
