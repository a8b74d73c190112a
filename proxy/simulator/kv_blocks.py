"""The KV cache as vLLM keeps it: equal blocks, handed to sequences as they grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.simulator.sequence import Sequence


class BlockPool:
    """Counts blocks. A sequence holds `sequence.blocks` of them; nobody else holds any."""

    __slots__ = ("block_size", "free", "total")

    def __init__(self, total: int, block_size: int) -> None:
        self.total = total
        self.free = total
        self.block_size = block_size

    @property
    def used(self) -> int:
        return self.total - self.free

    @property
    def usage(self) -> float:
        """Share in use, 0 to 1."""
        return self.used / self.total

    def fits(self, tokens: int) -> bool:
        """Whether a sequence of so many tokens that holds nothing yet could be held now."""
        return -(-tokens // self.block_size) <= self.free

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Gives the sequence room for so many more tokens; False, and nothing taken, if there is
        none."""
        needed = -(-(sequence.computed + tokens) // self.block_size) - sequence.blocks
        if needed <= 0:
            return True
        if needed > self.free:
            return False
        self.free -= needed
        sequence.blocks += needed
        return True

    def give_back(self, sequence: Sequence) -> None:
        self.free += sequence.blocks
        sequence.blocks = 0
