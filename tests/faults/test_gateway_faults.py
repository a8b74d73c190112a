"""A gateway that is out of descriptors, out of memory, or whose clock jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.cell import judge
from tests.faults.gateway_faults import no_memory, wall_clock_that_jumps
from tests.faults.matrix import Fault, Point
from tests.faults.scene import Scene
from tests.faults.scripted_engine import answer
from tests.faults.stand import Stands, each_cell
from tests.support.descriptors import no_descriptors

if TYPE_CHECKING:
    from tests.faults.rules import Cell


@each_cell(Fault.NO_DESCRIPTORS)
def test_a_gateway_that_can_open_nothing(stands: Stands, cell: Cell) -> None:
    if cell.point is Point.CONNECTING:
        stands.close()  # httpx keeps those that died till it wants one, and then has a descriptor
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        said = answer(stream=cell.stream)
        async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
            with no_descriptors():
                scene.go_on()
                if cell.point is Point.IDLE:
                    await scene.serve_the_next()
                await stand.until_ended(scene.requests)
            await judge(scene, cell)

    stand.run(scenario())


@each_cell(Fault.NO_MEMORY)
def test_a_gateway_that_is_out_of_memory(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        said = answer(stream=cell.stream)
        async with Scene.at(stand, cell.point, said, stream=cell.stream, sends=False) as scene:
            with no_memory(cell.point):
                scene.send_what_waits()
                scene.go_on()
                if cell.point is Point.BODY:
                    await scene.client.see()
                    scene.client.fin()  # or the gateway reads on for 2 s, that the answer is read
                await stand.until_ended(scene.requests - (cell.point is Point.HEAD))
                if cell.point is Point.HEAD:
                    await scene.client.until(lambda: scene.client.is_over, "an end")
            await judge(scene, cell)
        told = stand.gateway.loop_failures  # uvloop tells of what a callback raised
        assert all(isinstance(one["exception"].__context__, MemoryError) for one in told), told
        told.clear()

    stand.run(scenario())


@each_cell(Fault.CLOCK_JUMP)
def test_a_gateway_whose_wall_clock_jumps(stands: Stands, cell: Cell) -> None:
    stand = stands.of(cell.client_kind)

    async def scenario() -> None:
        said = answer(stream=cell.stream)
        with wall_clock_that_jumps() as jump:
            async with Scene.at(stand, cell.point, said, stream=cell.stream) as scene:
                jump(3600.0)
                await stand.settle()
                jump(-86_400.0)
                scene.go_on()
                await judge(scene, cell)
        assert all(0 <= record.duration_s < 10 for record in stand.gateway.records)

    stand.run(scenario())
