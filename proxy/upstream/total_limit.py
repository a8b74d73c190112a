"""The limit of a whole exchange with an engine (`UpstreamTimeouts.total_s`).

How long a request may run is what we have decided, and how long it would run is what its client has
asked for: that it was cut says nothing about the engine, however many are.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from proxy.upstream.errors import UpstreamTimeoutError, said_of
from proxy.upstream.late_expiry import time_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from proxy.upstream.port import UpstreamResponse


def took_too_long(peer: str, total_s: float | None) -> UpstreamTimeoutError:
    """What an exchange fails with that was cut at the limit."""
    message = said_of(peer, f"the exchange took longer than {total_s:g} s")
    return UpstreamTimeoutError(message, is_ours=True)


@contextlib.asynccontextmanager
async def in_time(
    exchange: AbstractAsyncContextManager[UpstreamResponse], total_s: float, peer: str
) -> AsyncIterator[UpstreamResponse]:
    """`exchange`, which bounds itself until the head of the response is there, and is ended at the
    limit from then on whatever its task waits for: often a client that does not read."""
    limit = time_limit(total_s)
    async with exchange as response:
        try:
            async with limit:
                yield response
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise took_too_long(peer, total_s) from error
