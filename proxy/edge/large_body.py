"""What is done with a large body, in small steps on the event loop, so that nobody waits for it.

A thread would be no help: one call of the JSON decoder holds the interpreter lock to its end, and
a thread that is in Python gives it up only every 5 ms, each time the loop needs it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from proxy.openai_api.measure import Measured, RequestShape, measure, measure_in_steps
from proxy.openai_api.named_model import model_in_body, model_in_steps
from proxy.openai_api.weight import refuse_what_is_too_much

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence

    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Result, Steps

_FREED_AT_ONCE = 4  # blocks of some 256 KiB

# One body after the other: together they would hold the interpreter, and memory, as often as there
# are threads.
_reader = ThreadPoolExecutor(1, "large-body")


async def measure_large(shape: RequestShape, content_type: bytes, body: Blocks) -> Measured:
    """As measure()."""
    measured = await _in_turns(measure_in_steps(shape, content_type, body))
    if measured is not None:
        return measured
    return await _at_once(body, lambda: measure(shape, content_type, bytes(body)))


async def model_in_large_body(body: Blocks) -> str | None:
    """As model_in_body(). Raises UnreadableBodyError only where looking would take too long."""
    found = await _in_turns(model_in_steps(body))
    if found is not None:
        return found.model
    return await _at_once(body, lambda: model_in_body(bytes(body)))


async def _at_once(body: Blocks, read: Callable[[], Result]) -> Result:
    """What cannot be done in steps is, after all, in a thread: there the loop has a turn between
    two calls of the decoder. What would take too long there is refused as unreadable."""
    await _in_turns(refuse_what_is_too_much(body))
    return await asyncio.get_running_loop().run_in_executor(_reader, read)


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
