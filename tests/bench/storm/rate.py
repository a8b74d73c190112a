"""How many a second, where many come at the same moment.

Answers of one length that began together end together, seven at a time; whether the last seven fall
into a window or just behind it would be some hundredths of the rate. So the window fades:

    rate = sum of w(t) / (length - fade)

t: moments of answers; w: 0 at both ends of the window, 1 between, and `fade` long on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# More than an answer takes, so that those that come together are never at one edge all at once.
_FADE_S = 2.0


def faded_rate(moments: Iterable[float], begins_at: float, ends_at: float) -> float:
    """Per second. A window too short to fade whole does so over half of its length."""
    length_s = ends_at - begins_at
    fade_s = min(_FADE_S, length_s / 2)
    weights = (min(at - begins_at, ends_at - at) / fade_s for at in moments)
    return sum(min(1.0, max(0.0, weight)) for weight in weights) / (length_s - fade_s)
