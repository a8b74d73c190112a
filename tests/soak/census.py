"""What a process holds, counted: objects by type, and things in containers.

Bytes and text are no containers and the collector does not know them; what holds them is one. So
the items of lists, dictionaries, sets and queues are counted too.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from types import CoroutineType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Census = dict[str, int]

BLOCKS = "allocated blocks"
ITEMS = "items in "
KNOTTED = "knotted "
# What a request, a connection or an answer is made of. Not one of them may be left behind.
EXACT = (
    "_asyncio.Task",
    "_asyncio.Future",
    "uvloop.loop.TCPTransport",
    "uvloop.loop.TimerHandle",
    "uvloop.loop.UVTimer",
)
# What is kept on purpose, and of how much: ten minutes of history for the status page, and the
# refusals that are told alike, with the load that they tell.
KEPT = {
    "proxy.edge.status.history.Sample": 600,
    "proxy.edge.refusal_forms.Form": 256,
    "proxy.admission.outcome.Load": 256,
}
# What we are to blame for; a poll leaves a knot of httpx's, and the collector is there for that.
_OURS = (f"{KNOTTED}proxy.", f"{KNOTTED}uvicorn.", f"{KNOTTED}_asyncio.Task")
# Of anything else: the last refusals, a minute of totals, and the like.
SPARE = 64


def take_census() -> Census:
    """Counts what is there once all garbage is gone, also what was there before the process began
    to serve and which the collector was told to leave alone."""
    gc.unfreeze()
    knots = _knots()
    objects = gc.get_objects()
    counts = Counter(_name(one) for one in objects)
    for one in objects:
        if isinstance(one, list | dict | set | deque) and one is not objects:
            counts[ITEMS + type(one).__name__] += len(one)
    del objects
    gc.freeze()
    return {**counts, **knots, BLOCKS: sys.getallocatedblocks()}


def _knots() -> Census:
    """Objects that hold each other, and that nobody else holds: the collector alone finds them, and
    the older they are, the later. They are counted, and then gone."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    counts = Counter(KNOTTED + _name(one) for one in gc.garbage)
    gc.set_debug(0)
    gc.garbage.clear()
    for _ in range(2):
        gc.collect()
    return counts


def _name(one: object) -> str:
    """Some types have a descriptor where others have the name of their module. Coroutines bear the
    name of their function, or one could not tell whose they are."""
    if isinstance(one, CoroutineType):
        return f"coroutine {one.__qualname__}"
    kind = type(one)
    module, name = kind.__module__, kind.__qualname__
    return name if module == "builtins" or not isinstance(module, str) else f"{module}.{name}"


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> Census:
    """By how many each type has grown; those that have not are left out."""
    grown = {name: after[name] - before.get(name, 0) for name in after}
    return {name: more for name, more in grown.items() if more > 0}


def left_behind(before: Mapping[str, int], after: Mapping[str, int], spare: int) -> Census:
    """What has grown by more than it may."""
    return {
        name: more
        for name, more in growth(before, after).items()
        if more > allowed(name, spare) and name != BLOCKS
    }


def allowed(name: str, spare: int) -> int:
    """A timer or a task more or less is the poller's, which is always between two looks."""
    if name in EXACT or name.startswith("coroutine "):
        return 2
    if name.startswith(KNOTTED):
        return 2 if name.startswith(_OURS) else sys.maxsize
    if name in KEPT:
        return KEPT[name]
    return _MORE_SPARE.get(name, spare)


# What the bounded histories and caches are made of, and much else: a little of each is theirs.
_MORE_SPARE = {
    **dict.fromkeys(("dict", "list", "tuple", "set", "cell", "function"), 1_000),
    f"{ITEMS}deque": 2_000,
    f"{ITEMS}dict": 500,
    f"{ITEMS}list": 200,
}
