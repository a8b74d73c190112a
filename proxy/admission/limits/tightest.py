"""Several limits on the same seats: the smallest binds.

seats = min(seats_1, ..., seats_n)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.admission.ports import Limit


class TightestLimit:
    """Follows its parts as they move. Raises ValueError when there are none."""

    __slots__ = ("_limits",)

    def __init__(self, *limits: Limit) -> None:
        if not limits:
            raise ValueError("the smallest of no limits is none")
        self._limits = limits

    @property
    def seats(self) -> int:
        return min([limit.seats for limit in self._limits])

    @property
    def ceiling(self) -> int:
        return min([limit.ceiling for limit in self._limits])

    @property
    def widest(self) -> int:
        return min([limit.widest for limit in self._limits])

    @property
    def held(self) -> int:
        return min([limit.held for limit in self._limits])
