"""The HTTP client of each engine, as the settings want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.idle_reserve import IdleReserve
from proxy.upstream.pool import ConnectionPool
from proxy.upstream.port import UpstreamTimeouts

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.settings import Settings
    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import Upstream


class EngineClients:
    """Makes them. Those of one gateway lend each other descriptors, where the client can."""

    def __init__(self, settings: Settings) -> None:
        self._is_httpx = settings.upstream_client == "httpx"
        self._reserve = IdleReserve()
        self._timeouts = UpstreamTimeouts(
            connect_s=settings.connect_timeout,
            first_byte_s=settings.first_byte_timeout,
            idle_s=settings.idle_timeout,
            total_s=settings.total_timeout,
        )

    def keep_within(self, most: Callable[[], int] | None) -> None:
        """See IdleReserve. Over httpx idle connections are kept till they expire."""
        self._reserve.keep_within(most)

    def of(self, address: UpstreamAddress) -> Upstream:
        if self._is_httpx:
            return HttpxUpstream(address, self._timeouts)
        return ConnectionPool(address, self._timeouts, reserve=self._reserve)
