"""All points of a life at once, each with a gateway of its own: for faults that take their time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.faults.rules import CLIENT_KINDS, cells
from tests.faults.scene import Scene
from tests.faults.scripted_engine import answer
from tests.faults.stand import Stand, open_sockets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.faults.matrix import Fault
    from tests.faults.rules import Cell, ClientKind

    Strike = Callable[[Scene, Cell], Awaitable[None]]
    Settings = Callable[[Cell], Mapping[str, object]]

every_kind = pytest.mark.parametrize("kind", CLIENT_KINDS)
every_form = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


def strike_all(
    fault: Fault,
    kind: ClientKind,
    strike: Strike,
    settings: Settings = lambda _: {},
    *,
    stream: bool,
) -> None:
    """Brings a request to each point that there is, strikes each, and tells all that failed.

    Of sockets it can only be said that none is left when all gateways have ended."""
    sockets_before = open_sockets()
    chosen = [cell for cell in cells([fault]) if (cell.client_kind, cell.stream) == (kind, stream)]

    async def all_of_them() -> list[BaseException | None]:
        # As many as there are cells, or some would wait for others to have started.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(chosen)))
        scenes = (_one(cell, strike, settings(cell)) for cell in chosen)
        return await asyncio.gather(*scenes, return_exceptions=True)

    with asyncio.Runner() as runner:
        results = runner.run(all_of_them())
    failed = {f"{cell}": error for cell, error in zip(chosen, results, strict=True) if error}
    assert not failed, "\n".join(f"{name}: {error!r}" for name, error in failed.items())
    assert open_sockets() == sockets_before


async def _one(cell: Cell, strike: Strike, settings: Mapping[str, object]) -> None:
    stand = Stand(None, {"upstream_client": cell.client_kind, **settings})
    await stand.start()
    try:
        await stand.begin()
        said = answer(stream=cell.stream)
        async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
            await strike(scene, cell)
        assert not stand.gateway.loop_failures, stand.gateway.loop_failures
    finally:
        await stand.aclose()
