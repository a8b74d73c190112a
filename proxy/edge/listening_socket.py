"""A listener's socket, as asyncio's own event loop has to be handed it. uvloop asks only for its
number, and needs none of this.

asyncio accepts in one step as many connections as may wait, 2,048, before anybody looks at the
first: of a crowd more are in than their cap admits. When there is no descriptor left for one it
says so and tries again after a second, and does all that 2,048 times in that same step, each with
a timer of its own: the log floods, and the process does little else (CPython 3.11 to 3.14).
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from socket import _RetAddress

MOST_IN_A_ROW: Final = 16
OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListeningSocket(socket.socket):
    """Ends a row of calls of accept() by saying that nobody waits, though somebody may: the loop
    asks again in its next step."""

    _in_a_row = 0

    def accept(self) -> tuple[socket.socket, _RetAddress]:
        if self._in_a_row >= MOST_IN_A_ROW:
            self._in_a_row = 0
            raise BlockingIOError(errno.EAGAIN, "enough for now")
        try:
            accepted = super().accept()
        except OSError as error:
            self._in_a_row = MOST_IN_A_ROW if error.errno in OUT_OF_RESOURCES else 0
            raise
        self._in_a_row += 1
        return accepted
