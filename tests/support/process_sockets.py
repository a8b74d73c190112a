"""What another process holds open, from /proc: descriptors, and sockets by where they lead."""

from __future__ import annotations

import contextlib
from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_TIME_WAIT = "06"


def open_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def sockets_towards(pid: int, port: int) -> int:
    """The process's TCP sockets whose other end is `port`, in whatever state."""
    inodes = {inode for remote_port, _state, inode in _tcp_sockets() if remote_port == port}
    return len(inodes & _socket_inodes(pid))


def in_time_wait_towards(port: int) -> int:
    """Connections to `port` that this machine's kernel still remembers, whoever made them."""
    return sum(
        1
        for remote_port, state, _inode in _tcp_sockets()
        if remote_port == port and state == _TIME_WAIT
    )


def _tcp_sockets() -> list[tuple[int, str, str]]:
    """Remote port, state, inode."""
    rows = []
    for table in _TABLES:
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            rows.append((int(fields[2].rpartition(":")[2], 16), fields[3], fields[9]))
    return rows


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed while we looked
            name = str(descriptor.readlink())
            if name.startswith("socket:["):
                found.add(name[len("socket:[") : -1])
    return found
