"""What texts an object holds, directly or through others."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Behind these is the whole program, and nothing that the object would hold alone.
_TOO_FAR = (ModuleType, type, FunctionType)


def texts_held_by(root: object) -> Iterator[str]:
    """Every str, and what is in every bytes, bytearray and memoryview."""
    seen, found = {id(root)}, [root]
    while found:
        one = found.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, (bytes, bytearray, memoryview)):
            yield bytes(one).decode("latin-1")
        for referent in gc.get_referents(one):
            if id(referent) not in seen and not isinstance(referent, _TOO_FAR):
                seen.add(id(referent))
                found.append(referent)


def holds(root: object, text: str) -> bool:
    return any(text in held for held in texts_held_by(root))
