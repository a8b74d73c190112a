"""When to invite a refused client back.

The expected wait w, times a random factor from 0.5 to 1.5, within 1 to 55 s. SDKs disregard more
than 60 s, and some take 0 for "at once". The random factor keeps clients that were refused together
from coming back together, so w itself is bounded first, to 2 and 36.7 s: clamping after the draw
would send every short wait back at exactly 1 s and every long one at exactly 55 s. With less than
2 s a thousand clients would all be back within one second, and those that read only the integer
at one moment, since all that lies between 1 and 1.5 rounds up to 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random

SHORTEST_S = 1.0
LONGEST_S = 55.0
_LEAST_FACTOR = 0.5
_MOST_FACTOR = 1.5

# Before anything has been served nobody can tell; a few seconds spread the retries without
# sending anyone away for a minute.
_UNKNOWN_WAIT_S = 3.0


class RetryAfter(NamedTuple):
    """`seconds` is for Retry-After, `milliseconds` for retry-after-ms: one moment, rounded up."""

    seconds: int
    milliseconds: int


def draw_retry_after(expected_wait_s: float, rng: random.Random) -> RetryAfter:
    """`expected_wait_s` of math.inf means unknown."""
    expected_s = _UNKNOWN_WAIT_S if math.isinf(expected_wait_s) else expected_wait_s
    bounded_s = min(max(expected_s, SHORTEST_S / _LEAST_FACTOR), LONGEST_S / _MOST_FACTOR)
    drawn_s = rng.uniform(bounded_s * _LEAST_FACTOR, bounded_s * _MOST_FACTOR)
    milliseconds = math.ceil(drawn_s * 1000)
    return RetryAfter(math.ceil(milliseconds / 1000), milliseconds)
