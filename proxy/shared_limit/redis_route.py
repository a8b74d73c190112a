"""The way to the server that holds the leases: the one that is named, or the one that others name.

Sentinels know which server is the primary, nodes of a cluster which of them has a key. Both are
asked anew for each connection, for after a fail-over it is another one; and each time another of
them first, for one that is cut off from the others may know of the past only. A server that is the
primary no more takes no writes, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, RedisError

from proxy.env_values.store_address import StoreKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.env_values.store_address import StoreAddress

_NODE_ANSWERS_WITHIN_S = 0.3


class _ClosesAtOnce(AbstractConnection):
    """Without the goodbye of TLS: where it is not answered the socket would stay open for half a
    minute, or until the collector finds it when the loop has ended. Redis needs none."""

    async def disconnect(self, *_: object, **_why: object) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait=True)


class _Plain(_ClosesAtOnce, Connection):
    pass


class _Tls(_ClosesAtOnce, SSLConnection):
    pass


class _Socket(_ClosesAtOnce, UnixDomainSocketConnection):
    pass


class RedisRoute:
    """To the server that has `key`. Connections to it bear the name `client_name`."""

    def __init__(self, address: StoreAddress, key: str, client_name: str) -> None:
        self._address = address
        self._key = key.encode()
        self._client_name = client_name
        self._asked = 0

    async def connect(self) -> AbstractConnection:
        """Raises RedisError or OSError."""
        connection = await self._to_server()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _to_server(self) -> AbstractConnection:
        address = self._address
        options: dict[str, Any] = {
            "username": address.username,
            "password": address.password,
            "db": address.db,
            "client_name": self._client_name,
        }
        if address.path:
            return _Socket(path=address.path, **_COMMON, **options)
        if address.kind is StoreKind.SERVER:
            return self._to(*address.nodes[0], options)
        return self._to(*await self._found(), options)

    def _to(self, host: str, port: int, options: Mapping[str, Any]) -> AbstractConnection:
        if self._address.tls is None:
            return _Plain(host=host, port=port, **_COMMON, **options)
        tls: Mapping[str, Any] = self._address.tls
        return _Tls(host=host, port=port, **_COMMON, **options, **tls)

    async def _found(self) -> tuple[str, int]:
        """As the first node says that knows."""
        nodes, faults = self._address.nodes, []
        self._asked += 1
        first = self._asked % len(nodes)
        for host, port in nodes[first:] + nodes[:first]:
            try:
                async with asyncio.timeout(_NODE_ANSWERS_WITHIN_S):
                    return await self._asked_of(host, port)
            except AuthenticationError:
                raise
            except TimeoutError:
                faults.append(f"{host}:{port}: no answer")
            except (RedisError, OSError) as error:
                faults.append(f"{host}:{port}: {error}")
        raise ConnectionError("; ".join(faults))

    async def _asked_of(self, host: str, port: int) -> tuple[str, int]:
        address = self._address
        if address.kind is StoreKind.SENTINEL:
            username, password = address.sentinel_username, address.sentinel_password
            words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.service]
        else:
            username, password = address.username, address.password
            words = ["CLUSTER", "SLOTS"]
        node = self._to(host, port, {"username": username, "password": password})
        try:
            await node.connect()  # type: ignore[no-untyped-call]
            await node.send_command(*words)
            answer = await node.read_response()
        finally:
            with contextlib.suppress(RedisError, OSError):
                await node.disconnect(nowait=True)
        if address.kind is StoreKind.SENTINEL:
            return _primary(answer)
        return _holder(answer, key_slot(self._key), host)


_COMMON: dict[str, Any] = {
    "protocol": 2,
    "retry": Retry(NoBackoff(), 0),
    "socket_timeout": None,
    "socket_connect_timeout": 1.0,
    "decode_responses": False,
}


def _primary(answer: list[bytes] | None) -> tuple[str, int]:
    """`answer`: host and port, or nothing for a service that it does not watch."""
    if not answer:
        raise RedisError("does not know the service")
    host, port = answer
    return host.decode(), int(port)


def _holder(answer: list[list[Any]], slot: int, asked: str) -> tuple[str, int]:
    """`answer`: ranges of slots, the primary of each behind its end. A node that does not know its
    own address is the one that was asked."""
    for first, last, primary, *_ in answer:
        if first <= slot <= last:
            return (primary[0] or b"").decode() or asked, int(primary[1])
    raise RedisError("no node of the cluster has the leases")
