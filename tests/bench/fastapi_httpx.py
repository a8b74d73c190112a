"""The proxy one would write first: FastAPI, one shared httpx client, StreamingResponse.

UPSTREAM=http://127.0.0.1:9000 uvicorn tests.bench.fastapi_httpx:app
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def _client(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=os.environ["UPSTREAM"], limits=limits) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=_client)


@app.post("/v1/chat/completions")
async def chat(request: Request) -> StreamingResponse:
    client: httpx.AsyncClient = request.app.state.client
    upstream = client.build_request(
        "POST",
        request.url.path,
        content=await request.body(),
        headers={"content-type": "application/json"},
    )
    response = await client.send(upstream, stream=True)
    return StreamingResponse(
        response.aiter_raw(),
        status_code=response.status_code,
        media_type=response.headers.get("content-type"),
        background=BackgroundTask(response.aclose),
    )
