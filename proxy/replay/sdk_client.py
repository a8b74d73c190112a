"""A client as applications have it: the OpenAI SDK's timeout and retries around one request.

The rule is that of openai-python since 2.52 and openai-node 7: connection errors, timeouts and the
statuses 408, 409, 429 and 5xx are tried again, twice by default; `x-should-retry` overrules the
status; the wait is `retry-after-ms`, else `Retry-After` up to 60 s, else

    delay_s = min(0.5 x 2^k, 8) x (1 - 0.25 x u),   k the retries so far, u uniform in 0 to 1
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 8.0
_LONGEST_RETRY_AFTER_S = 60.0
_RETRIED_STATUSES = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client waits for one try, in seconds, and how often it tries again."""

    timeout_s: float = 600.0
    max_retries: int = 2


@dataclass(frozen=True, slots=True)
class Story:
    """What became of one request. `status` is the last one, 0 when no whole answer came."""

    status: int
    tries: int
    refused_tries: int
    duration_s: float

    @property
    def answered(self) -> bool:
        return self.status == 200


def should_retry(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the SDK tries again after this answer, if it has tries left."""
    told = headers.get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    return status in _RETRIED_STATUSES or status >= 500


def retry_delay_s(retries_so_far: int, headers: Mapping[str, str], rng: random.Random) -> float:
    """How long the SDK waits before it tries again."""
    told_s = _told_delay_s(headers)
    if told_s is not None and 0 < told_s <= _LONGEST_RETRY_AFTER_S:
        return told_s
    backoff_s = min(_FIRST_DELAY_S * 2.0**retries_so_far, _LONGEST_DELAY_S)
    return backoff_s * (1 - 0.25 * rng.random())


def _told_delay_s(headers: Mapping[str, str]) -> float | None:
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            told = float(headers.get(name, ""))
        except ValueError:
            continue
        return told * unit_s
    return None


async def ask(
    client: httpx.AsyncClient,
    path: str,
    body: Mapping[str, object],
    patience: Patience,
    rng: random.Random,
) -> Story:
    """One request of an application, however many tries it takes. Never raises for a failed one."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    refused = 0
    for retries in range(patience.max_retries + 1):
        status, headers = await _try(client, path, body, patience, retries)
        refused += status in (429, 503)
        last = retries == patience.max_retries
        if status and (status < 400 or not should_retry(status, headers)):
            last = True
        if last:
            break
        await asyncio.sleep(retry_delay_s(retries, headers, rng))
    return Story(status, retries + 1, refused, loop.time() - began)


async def _try(
    client: httpx.AsyncClient,
    path: str,
    body: Mapping[str, object],
    patience: Patience,
    retries: int,
) -> tuple[int, Mapping[str, str]]:
    """Status and headers; status 0 when no whole answer came in time."""
    headers = {
        "x-stainless-retry-count": str(retries),
        "x-stainless-read-timeout": f"{patience.timeout_s:g}",
    }
    try:
        async with asyncio.timeout(patience.timeout_s):
            response = await client.post(path, json=body, headers=headers)
    except (TimeoutError, httpx.HTTPError):
        return 0, {}
    return response.status_code, response.headers
