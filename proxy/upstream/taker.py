"""Who takes the body of a response while it comes: see UpstreamResponse.pass_to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.upstream.port import Take


class Taker:
    """`has_room` is the taker's last word, `is_done` once it has the last piece.

    `error` is what it raised where nobody could be told: in a callback of the event loop.
    """

    __slots__ = ("_take", "error", "has_room", "is_done")

    def __init__(self, take: Take) -> None:
        self._take = take
        self.has_room = True
        self.is_done = False
        self.error: Exception | None = None

    def give(self, piece: bytes, is_last: bool) -> None:
        """Raises whatever the taker raises."""
        self.has_room = self._take(piece, is_last)
        self.is_done = is_last

    def give_in_callback(self, piece: bytes, is_last: bool) -> bool:
        """The same, but that an error is kept for raise_error(). Returns whether the task that
        waits in pass_to() has anything to do now."""
        try:
            self.has_room = has_room = self._take(piece, is_last)
        except Exception as error:  # noqa: BLE001 - whatever it is, pass_to() raises it
            self.error = error
            return True
        self.is_done = is_last
        return is_last or not has_room

    def raise_error(self) -> None:
        if self.error is not None:
            raise self.error
