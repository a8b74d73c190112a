"""What is done with a large body, in small steps on the event loop, so that nobody waits for it.

A thread would be no help: one call of the JSON decoder holds the interpreter lock to its end, and
a thread that is in Python gives it up only every 5 ms, each time the loop needs it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.openai_api.measure import Measured, RequestShape, measure, measure_in_steps

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from proxy.openai_api.blocks import Blocks

_FREED_AT_ONCE = 4  # blocks of some 256 KiB


async def measure_large(shape: RequestShape, content_type: bytes, body: Blocks) -> Measured:
    """As measure(). What cannot be measured in steps is, after all, in a thread: there the loop has
    a turn between two bodies."""
    steps = measure_in_steps(shape, content_type, body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            measured: Measured | None = end.value
            break
        await asyncio.sleep(0)
    if measured is not None:
        return measured
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: measure(shape, content_type, bytes(body)))


def let_go(blocks: MutableSequence[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Frees the memory of a body that nobody needs any more. Giving 16 MiB back to the system at
    once would take 3 ms (2026-12)."""
    del blocks[-_FREED_AT_ONCE:]
    if blocks:
        loop.call_soon(let_go, blocks, loop)
