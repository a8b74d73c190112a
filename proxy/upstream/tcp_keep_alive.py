"""Lets the kernel notice a peer that vanished, and a firewall remember a silent connection."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

# Silent minutes are normal (queue, prefill); a firewall on the way must not forget us meanwhile.
_IDLE_S = 60


def keep_alive(wire: asyncio.Transport) -> None:
    """Harmless on a socket that is gone, and where the system has no such option."""
    connected = wire.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
