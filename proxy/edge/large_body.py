"""What is done with a large body, in small steps on the event loop, so that nobody waits for it.

A thread would be no help: one call of the JSON decoder holds the interpreter lock to its end, and
a thread that is in Python gives it up only every 5 ms, each time the loop needs it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.openai_api.measure import Measured, RequestShape, measure, measure_in_steps
from proxy.openai_api.weight import refuse_what_is_too_much

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Result, Steps

_FREED_AT_ONCE = 4  # blocks of some 256 KiB


async def measure_large(shape: RequestShape, content_type: bytes, body: Blocks) -> Measured:
    """As measure(). What cannot be measured in steps is, after all, in a thread: there the loop has
    a turn between two bodies. What would take too long there is refused as unreadable."""
    measured = await _in_turns(measure_in_steps(shape, content_type, body))
    if measured is not None:
        return measured
    await _in_turns(refuse_what_is_too_much(body))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: measure(shape, content_type, bytes(body)))


async def _in_turns(steps: Steps[Result]) -> Result:
    """The result; the loop has a turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(0)


def let_go(blocks: MutableSequence[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Frees the memory of a body that nobody needs any more. Giving 16 MiB back to the system at
    once would take 3 ms (2026-12)."""
    del blocks[-_FREED_AT_ONCE:]
    if blocks:
        loop.call_soon(let_go, blocks, loop)
