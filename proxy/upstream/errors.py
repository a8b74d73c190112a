"""What can go wrong on the hop to the engine, as a closed set."""

from __future__ import annotations


class UpstreamError(Exception):
    """The engine, or the way to it, failed. The message says what happened, with numbers; it
    never holds header values, bodies or credentials."""

    code = "upstream_closed"


class UpstreamConnectError(UpstreamError):
    """No connection could be made: refused, unreachable, name unknown, TLS failed."""

    code = "upstream_connect"


class UpstreamProtocolError(UpstreamError):
    """The engine answered something that is not HTTP/1.1."""

    code = "upstream_protocol"


class UpstreamClosedError(UpstreamError):
    """The engine closed the connection before the response was complete."""

    code = "upstream_closed"


class UpstreamTimeoutError(UpstreamError):
    """The engine was silent for longer than a timeout allows."""

    code = "upstream_timeout"
