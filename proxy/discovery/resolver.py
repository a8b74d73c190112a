"""Asks which addresses a host name has."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Resolver(Protocol):
    async def addresses(self, host: str) -> Iterable[str]:
        """The IP addresses of a host, of either family, in any order. Raises OSError when it has
        none, or when nobody can tell."""


class SystemResolver:
    """As every other program of this machine: /etc/hosts, then the name servers."""

    async def addresses(self, host: str) -> list[str]:
        """See Resolver.addresses."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise OSError(f"not a host name: {error}") from error
        return [str(address[0]) for _, _, _, _, address in found]
