"""How a request ended, as one closed set: it labels metrics, log lines and trace records."""

from __future__ import annotations

import enum


class RequestOutcome(enum.StrEnum):
    """Whose doing the end was. Every request has exactly one."""

    OK = "ok"
    """The engine's answer, below 400, reached the client whole."""

    CLIENT_ERROR = "client_error"
    """The engine answered 4xx, other than 429."""

    UPSTREAM_ERROR = "upstream_error"
    """The engine answered 5xx, could not be reached, fell silent, or broke off its answer."""

    UPSTREAM_OVERLOADED = "upstream_overloaded"
    """The engine itself refused under load: its own 429 or 503."""

    SHED = "shed"
    """Sluice refused under load, or because no engine can serve; `sluice_shed_total` says why."""

    ABANDONED = "abandoned"
    """The client left, or stopped reading, before the end."""

    REJECTED = "rejected"
    """Sluice refused the request for what it is: key, path, method, body, seats."""
