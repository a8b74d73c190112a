"""The gateway on a real socket in the test's own process, with an upstream client of the test's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import uvicorn

from proxy.app import build
from proxy.config import Settings
from proxy.edge.connection import SluiceProtocol
from proxy.edge.server import Address, bind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.upstream.port import Upstream


@contextlib.asynccontextmanager
async def gateway_in_process(upstream: Upstream, **settings: object) -> AsyncIterator[int]:
    """Gives the port. `settings` are fields of Settings; no engine is polled."""
    application = build(Settings(**settings), upstream=upstream, poll_engines=False)  # type: ignore[arg-type]  # pydantic judges the values
    bound = bind(Address("127.0.0.1", 0, "of a test"))
    config = uvicorn.Config(
        application.public,
        http=SluiceProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        await application.stop()
