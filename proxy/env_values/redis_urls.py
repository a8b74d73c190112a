"""The address of the store in which gateways share their limit, and the name of those who share."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from proxy.env_values.store_address import StoreAddress

if TYPE_CHECKING:
    from pydantic import SecretStr

_CLUSTER = re.compile(r"[A-Za-z0-9._-]{1,64}")


def redis_url(value: SecretStr | None) -> SecretStr | None:
    """Raises ValueError for a URL of something else, or where the client library is missing."""
    if value is None:
        return None
    StoreAddress.parse(value.get_secret_value())
    if find_spec("redis") is None:
        raise ValueError(
            "needs the client library: pip install 'vllm-sluice[redis]', "
            "or in a checkout .venv/bin/pip install -e '.[redis]'"
        )
    return value


def cluster_name(value: str) -> str:
    if not _CLUSTER.fullmatch(value):
        raise ValueError("must be 1 to 64 letters, digits, dots, dashes or underscores")
    return value
