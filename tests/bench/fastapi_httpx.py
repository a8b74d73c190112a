"""The proxy one would write with care: FastAPI, one shared httpx client, StreamingResponse.

UPSTREAM=http://127.0.0.1:9000 SEATS=64 PLACES=128 QUEUE_TIMEOUT_S=5 \
    uvicorn tests.bench.fastapi_httpx:app
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from tests.bench.semaphore_gate import SemaphoreGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _client_and_gate(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    upstream = os.environ["UPSTREAM"]
    async with httpx.AsyncClient(base_url=upstream, limits=limits, timeout=600) as client:
        app.state.client = client
        app.state.gate = SemaphoreGate()
        yield


app = FastAPI(lifespan=_client_and_gate)


@app.post("/v1/chat/completions")
async def chat(request: Request) -> StreamingResponse:
    client: httpx.AsyncClient = request.app.state.client
    gate: SemaphoreGate = request.app.state.gate
    await gate.enter()
    try:
        upstream = client.build_request(
            "POST",
            request.url.path,
            content=await request.body(),
            headers={"content-type": "application/json"},
        )
        response = await client.send(upstream, stream=True)
    except BaseException:
        gate.leave()
        raise

    async def finish() -> None:
        gate.leave()
        await response.aclose()

    return StreamingResponse(
        response.aiter_raw(),
        status_code=response.status_code,
        media_type=response.headers.get("content-type"),
        background=BackgroundTask(finish),
    )
