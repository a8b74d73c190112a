"""Which `SLUICE_*` names in an environment mean something, and what a wrong one may have meant."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PREFIX = "SLUICE_"

# Kubernetes gives every pod variables for each Service of its namespace, and a Service named
# "sluice" makes them collide with ours: SLUICE_PORT=tcp://10.0.0.1:8080, SLUICE_SERVICE_HOST=...
_SERVICE_LINK_NAME = re.compile(
    r"SLUICE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://[^/]*:\d+")


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes, not an operator, wrote this variable."""
    return bool(
        _SERVICE_LINK_NAME.fullmatch(name)
        or (name.endswith("_PORT") and _SERVICE_LINK_VALUE.fullmatch(value))
    )


def without_service_links(environment: Mapping[str, str | None]) -> dict[str, str | None]:
    """What an operator may have written."""
    return {
        name: value
        for name, value in environment.items()
        if not is_service_link(name.upper(), value or "")
    }


def unknown_name_problems(given: Mapping[str, str | None], known: Collection[str]) -> list[str]:
    """One line for each variable with our prefix that is none of ours. Empty ones are unset."""
    return [
        _unknown(name, known)
        for name, value in sorted((name.upper(), value) for name, value in given.items())
        if name.startswith(PREFIX)
        and value
        and name not in known
        and not is_service_link(name, value)
    ]


def _unknown(name: str, known: Collection[str]) -> str:
    endings = [other.removeprefix(PREFIX) for other in known]
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), endings, n=1, cutoff=0.4)
    hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else "docs/settings.md lists them all"
    return f"{name if name.isprintable() else repr(name)}: no such setting; {hint}"
