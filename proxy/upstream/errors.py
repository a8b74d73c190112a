"""What can go wrong on the hop to the engine, as a closed set."""

from __future__ import annotations

import errno

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
# The machine that we run on has no more descriptors, ports or memory for connections.
_OUR_OWN = OUT_OF_DESCRIPTORS | {errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}

_WHERE = "engine at "


def said_of(peer: str, what: str) -> str:
    """The message of an error."""
    return f"{_WHERE}{peer}: {what}"


class UpstreamError(Exception):
    """The engine, or the way to it, failed. The message says where and what happened, with numbers;
    it never holds header values, bodies or credentials."""

    code = "upstream_closed"
    is_ours = False
    """It lies on our side, and says nothing about the engine."""

    @property
    def what(self) -> str:
        """Without where, which is for those who run the engines to know."""
        said = str(self)
        return said.partition(": ")[2] if said.startswith(_WHERE) else said


class UpstreamConnectError(UpstreamError):
    """No connection could be made: refused, unreachable, name unknown, TLS failed.

    `is_ours`: for want of something on our side, which says nothing about the engine, and would
    keep us from any other one as well.
    """

    code = "upstream_connect"

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.is_ours = _is_our_own(cause)


class UpstreamProtocolError(UpstreamError):
    """The engine answered something that is not HTTP/1.1."""

    code = "upstream_protocol"


class UpstreamClosedError(UpstreamError):
    """The engine closed the connection before the response was complete."""

    code = "upstream_closed"


class UpstreamTimeoutError(UpstreamError):
    """The engine was silent for longer than a timeout allows.

    `is_ours`: it was not; the exchange took longer than any may (see total_limit).
    """

    code = "upstream_timeout"

    def __init__(self, message: str, *, is_ours: bool = False) -> None:
        super().__init__(message)
        self.is_ours = is_ours


def located(peer: str, error: Exception) -> Exception:
    """What a parser says of an answer, with where that came from; a fault of ours as it is."""
    if isinstance(error, UpstreamProtocolError):
        return UpstreamProtocolError(said_of(peer, str(error)))
    return error


def _is_our_own(cause: BaseException | None) -> bool:
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _OUR_OWN:
            return True
        cause = cause.__cause__ or cause.__context__
    return False
