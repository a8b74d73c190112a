"""Work in small steps, so that an event loop can do other things in between.

Such work is a generator. Each time it is resumed it does one step, of half a millisecond or so,
and in the end it returns its result. `yield from` puts one into another.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

Steps = Generator[None, None, Result]


def all_at_once(steps: Steps[Result]) -> Result:
    """The result, for whoever may take his time."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
