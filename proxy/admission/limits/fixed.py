"""A limit that never moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FixedLimit:
    """So many seats, for as long as the process lives. Raises ValueError below 0."""

    seats: int

    def __post_init__(self) -> None:
        if self.seats < 0:
            raise ValueError(f"a limit is 0 seats or more, not {self.seats}")

    @property
    def ceiling(self) -> int:
        return self.seats

    @property
    def widest(self) -> int:
        return self.seats

    @property
    def held(self) -> int:
        return self.seats
