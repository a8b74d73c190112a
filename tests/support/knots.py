"""Whether something is gone as soon as nobody needs it, or only once the collector has looked."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_knots_of(*kinds: type) -> Iterator[None]:
    """The collector, which is off inside, finds none of these that are only held by each other."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        found = sorted({type(one).__name__ for one in gc.garbage if isinstance(one, kinds)})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found, f"only the collector could undo: {found}"
