"""A port of the loopback interface that stays ours while the engine on it comes and goes.

A socket that is bound and does not listen keeps the port out of the system's choice for others:
between two lives of the engine no outgoing connection is given it as its own, not even the
gateway's towards that very port, which would then be connected to itself. A server that binds with
SO_REUSEADDR, as vLLM and every other does, can listen there all the same (Linux; elsewhere the port
is only known to have been free).
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def reserved_port(port: int = 0) -> Iterator[int]:
    """Gives the port; 0 takes any free one. Raises OSError when somebody has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, port))
        number: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield number
