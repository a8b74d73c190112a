"""The address of the store in which gateways share their limit, and the name of those who share."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import SecretStr

_SCHEMES = ("redis", "rediss", "unix")
_CLUSTER = re.compile(r"[A-Za-z0-9._-]{1,64}")


def redis_url(value: SecretStr | None) -> SecretStr | None:
    """Raises ValueError for a URL of something else, or where the client library is missing."""
    if value is None:
        return None
    parts = urlsplit(value.get_secret_value())
    try:
        has_place = bool(parts.path if parts.scheme == "unix" else parts.hostname) and (
            parts.scheme == "unix" or parts.port != 0
        )
    except ValueError:  # the port is no number
        has_place = False
    if parts.scheme not in _SCHEMES or not has_place:
        raise ValueError("must be redis://host:port/db, rediss:// for TLS, or unix:///path")
    if find_spec("redis") is None:
        raise ValueError("needs the client library: pip install 'vllm-sluice[redis]'")
    return value


def cluster_name(value: str) -> str:
    if not _CLUSTER.fullmatch(value):
        raise ValueError("must be 1 to 64 letters, digits, dots, dashes or underscores")
    return value
