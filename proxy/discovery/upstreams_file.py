"""The file that names the engines, read again whenever it has changed.

It is looked at, rather than watched by way of the kernel: that works the same for a file that is
written in place, one that is renamed over the old, a symbolic link that is turned to another file
(as Kubernetes does with a ConfigMap) and a file on another machine.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

from proxy.discovery.address_list import parse_addresses

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.upstream.address import UpstreamAddress

# A thousand times what anybody needs; what is longer is another file, named by mistake.
_MOST_BYTES = 1024 * 1024


class _Stamp(NamedTuple):
    """What differs when a file does. The time of the last change of its inode is part of it, for
    permissions that are mended, and for tools that set the time of the last write back."""

    device: int
    inode: int
    bytes: int
    written_ns: int
    changed_ns: int


_NOT_LOOKED_AT = _Stamp(0, 0, 0, 0, 0)


def load_addresses(path: Path) -> tuple[UpstreamAddress, ...]:
    """The engines that the file names. Raises ValueError with one line that says what is wrong,
    without the path."""
    return _addresses_in(_content_of(path))


def _content_of(path: Path) -> bytes:
    """The beginning of a file that is too long: more than may be."""
    try:
        if not _ends(path.stat().st_mode):
            raise ValueError("is no regular file")
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None


def _ends(mode: int) -> bool:
    """Opening a pipe waits for who writes to it, for ever if nobody does. A directory is told as
    such when it is opened."""
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _addresses_in(content: bytes) -> tuple[UpstreamAddress, ...]:
    if len(content) > _MOST_BYTES:
        raise ValueError(f"is longer than {_MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    return parse_addresses(text)


class UpstreamsFile:
    """Looks at a file whenever it is asked to. What is in it counts once it has been found twice in
    a row: whoever writes it in place may be half-way at the first look. By its content, and not by
    when it was written: some programs write the same again and again, and it must count all the
    same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: _Stamp | None = _NOT_LOOKED_AT
        self._seen: bytes | str | None = None
        self._judged: bytes | str | None = None
        self._problem: str | None = None

    def look(self) -> tuple[UpstreamAddress, ...] | None:
        """The engines that it names, when that has changed; None when there is nothing new.

        Raises ValueError, once for each change, when it cannot be used; its line does not repeat
        the path. Blocks as long as the file system does.
        """
        stamp = self._stamp()
        # What cannot be read is tried again at every look: the fault may be the disk's.
        if stamp == self._read and self._problem is None:
            return None
        content = self._content()
        has_settled, self._seen = content == self._seen, content
        if not has_settled:
            return None
        self._read = stamp
        return self._judge(content)

    def _judge(self, content: bytes | str) -> tuple[UpstreamAddress, ...] | None:
        is_new, self._judged = content != self._judged, content
        before, self._problem = self._problem, None
        try:
            if isinstance(content, str):
                raise ValueError(content)
            addresses = _addresses_in(content)
        except ValueError as error:
            self._problem = str(error)
            if is_new:
                raise
            return None
        return addresses if is_new or before is not None else None

    def _content(self) -> bytes | str:
        """Or why there is none."""
        try:
            return _content_of(self.path)
        except ValueError as problem:
            return str(problem)

    def _stamp(self) -> _Stamp | None:
        try:
            now = self.path.stat()
        except OSError:
            return None
        return _Stamp(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
