"""A gateway whose Redis has gone, at every point of a request's life."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.faults.cell import judge
from tests.faults.matrix import Fault, Point
from tests.faults.together import every_form, every_kind, strike_all
from tests.support.redis_server import running_redis

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.rules import Cell, ClientKind
    from tests.faults.scene import Scene


@every_form
@every_kind
def test_a_gateway_whose_redis_has_gone(kind: ClientKind, stream: bool, tmp_path: Path) -> None:
    """A Redis for each: a gateway that had to stand still for the others would lose its lease."""

    async def strike(scene: Scene, cell: Cell) -> None:
        servers[cell.point].stop()
        scene.go_on()
        await judge(scene, cell, others=True)

    with ExitStack() as stack:
        servers = {point: stack.enter_context(running_redis(tmp_path)) for point in Point}
        strike_all(
            Fault.REDIS_GONE,
            kind,
            strike,
            lambda cell: {"redis_url": servers[cell.point].url},
            stream=stream,
        )
