"""How full an engine is, by its own account."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """What an engine showed over the last second or so. None: it did not tell; never the same as 0.

    `waiting` counts sequences in the engine's own queue, `kv_cache_usage` goes from 0 to 1,
    `preemptions_per_s` are sequences thrown out and computed anew, `tpot_s` is the mean time
    between two tokens of a sequence, in seconds.
    """

    waiting: float | None = None
    kv_cache_usage: float | None = None
    preemptions_per_s: float | None = None
    tpot_s: float | None = None

    @property
    def is_unknown(self) -> bool:
        return self == _UNKNOWN


_UNKNOWN = Saturation()
