"""A limit that somebody moves by hand."""

from __future__ import annotations


class ManualLimit:
    """So many seats until set_most() says otherwise. Raises ValueError below 0."""

    __slots__ = ("seats",)

    def __init__(self, seats: int) -> None:
        self.set_most(seats)

    def set_most(self, seats: int) -> None:
        if seats < 0:
            raise ValueError(f"a limit is 0 seats or more, not {seats}")
        self.seats = seats

    @property
    def ceiling(self) -> int:
        return self.seats

    @property
    def widest(self) -> int:
        return self.seats

    @property
    def held(self) -> int:
        return self.seats
