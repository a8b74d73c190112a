"""The engines that the settings name, as `sluice serve` would find them at its start."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from proxy.discovery.expansion import engines_behind, is_name, one_family
from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from proxy.discovery.resolver import Resolver
    from proxy.settings import Settings

_LOOKUP_S = 5.0


async def engine_addresses(settings: Settings, resolver: Resolver) -> dict[str, UpstreamAddress]:
    """Each by the URL that is written for it, or by its own name where its host is several."""
    addresses = [UpstreamAddress.parse(url) for url in settings.upstream_urls]
    looked_up = settings.dns_interval > 0
    behind = await asyncio.gather(
        *(_behind(address, resolver if looked_up else None) for address in addresses)
    )
    return {
        str(engine) if engine.is_one_of_several else url: engine
        for url, engines in zip(settings.upstream_urls, behind, strict=True)
        for engine in engines
    }


async def _behind(
    address: UpstreamAddress, resolver: Resolver | None
) -> tuple[UpstreamAddress, ...]:
    """What cannot be looked up is one engine, of which is said then what came of asking it."""
    if resolver is None or not is_name(address.host, socket.gethostname()):
        return (address,)
    try:
        async with asyncio.timeout(_LOOKUP_S):
            ips = one_family(await resolver.addresses(address.host))
    except OSError:  # TimeoutError is one
        ips = []
    return engines_behind(address, ips) or (address,)
