"""One port, several processes: each has a socket of its own, and the kernel deals new connections
out among them (SO_REUSEPORT).

The alternative, one socket that all of them accept from, is left to chance: of 256 connections that
come at once, one of two processes took 217. A connection may stay for hours, and with it the work.

A socket of its own also dies with its process: new connections go to the others from that moment.
"""

from __future__ import annotations

import socket


def keep_for_own(bound: socket.socket) -> None:
    """From now on only another_of() can bind to this port, even while nobody listens there.

    The socket must have been bound without sharing, which fails where somebody listens. It must
    never listen itself: it would be dealt connections.
    """
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    # While it is set, Linux lets anybody bind who sets it too, as long as nobody listens.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def another_of(kept: socket.socket) -> socket.socket:
    """A socket for one more process, bound to the same port, not listening yet. Raises OSError."""
    one = socket.socket(kept.family, kept.type, kept.proto)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(kept.getsockname())
    except OSError:
        one.close()
        raise
    return one
