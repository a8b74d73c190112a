"""The proxy of the article that Sluice began with: a semaphore, a new httpx client per request.

UPSTREAM=http://127.0.0.1:9000 SEATS=64 PLACES=128 QUEUE_TIMEOUT_S=5 \
    uvicorn tests.bench.article:app

It gathers the whole answer before it sends any of it, so it has no figure for streams.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from tests.bench.semaphore_gate import SemaphoreGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _gate(app: FastAPI) -> AsyncIterator[None]:
    app.state.gate = SemaphoreGate()
    yield


app = FastAPI(lifespan=_gate)


@app.post("/v1/chat/completions")
async def chat(request: Request) -> JSONResponse:
    await request.app.state.gate.enter()
    try:
        async with httpx.AsyncClient(timeout=600) as client:
            url = os.environ["UPSTREAM"] + request.url.path
            answer = await client.post(url, json=await request.json())
            return JSONResponse(answer.json(), answer.status_code)
    finally:
        request.app.state.gate.leave()
