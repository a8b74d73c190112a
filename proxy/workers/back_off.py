"""How long to wait before a worker that has died is started again.

wait = min(FIRST_S * 2^n, LONGEST_S)     n  how often in a row it has died soon
"""

from __future__ import annotations

FIRST_S = 0.25
LONGEST_S = 30.0
# Whoever has lived so long has not died of its start.
LIVED_S = 60.0


class BackOff:
    """Of one worker."""

    def __init__(self) -> None:
        self._wait_s = FIRST_S

    def after(self, lived_s: float) -> float:
        """Seconds to wait now that it has died, `lived_s` after its start."""
        if lived_s >= LIVED_S:
            self._wait_s = FIRST_S
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, LONGEST_S)
        return wait_s
