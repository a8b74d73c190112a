"""The store in Redis or Valkey: one script, one connection that bears the gateway's name.

The connection says that the process lives: as long as it is open others keep this gateway's seats
for it. So it is not closed when the store is silent or answers with an error, but only when another
one stands in its place or the process ends. A server says which run of it this is on each new
connection; after a restart, or a fail-over to a replica, the script knows by that that its data may
be old.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from proxy.env_values.store_address import StoreAddress
from proxy.shared_limit.lease_rules import GRACE_MS, LEASE_MS, MISSING_MS
from proxy.shared_limit.redis_route import RedisRoute
from proxy.shared_limit.store import Granted, StoreAwayError, StoreRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from redis.asyncio.connection import AbstractConnection

    from proxy.shared_limit.store import Renewal

_SCRIPT = Path(__file__).with_name("renew.lua").read_text()
_LOAD = ("SCRIPT", "LOAD", _SCRIPT)
_ANSWERS_WITHIN_S = 1.0
_KEPT_MS = 24 * 3600 * 1000
_RUN_ID = re.compile(rb"run_id:([0-9a-f]+)")
_NAME = re.compile(rb"\bname=(\S+)")


class RedisStore:
    """`url` as StoreAddress reads it. `cluster` has no blanks in it.

    `clock` replaces the server's, in seconds, for tests. Raises ValueError for a bad URL.
    """

    def __init__(
        self,
        url: str,
        cluster: str,
        gateway: str,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        address = StoreAddress.parse(url)
        self._route = RedisRoute(address, self._key(""), f"{self._name_prefix}{gateway}")
        self._connection: AbstractConnection | None = None
        self._silent: AbstractConnection | None = None
        self._run = b""
        self._script = b""
        self._one_at_a_time = asyncio.Lock()

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        now = "" if self._clock is None else round(self._clock() * 1000)

        def commands() -> list[Sequence[Any]]:
            return [
                (
                    *("EVALSHA", self._script, 1, self._key(engine)),
                    *(self._run, renewal.as_json(), now),
                    *(LEASE_MS, GRACE_MS, MISSING_MS, _KEPT_MS),
                )
                for engine, renewal in asked.items()
            ]

        answers = await self._exchange(commands)
        try:
            return dict(zip(asked, map(Granted.from_json, answers), strict=True))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreAwayError(f"what it answers is not understood: {error}") from error

    async def connected(self) -> frozenset[str] | None:
        try:
            [clients] = await self._exchange(lambda: [("CLIENT", "LIST")])
        except _NotPermittedError:
            return None
        prefix = self._name_prefix.encode()
        names = _NAME.findall(clients)
        return frozenset(one[len(prefix) :].decode() for one in names if one.startswith(prefix))

    async def aclose(self) -> None:
        async with self._one_at_a_time:
            await self._drop_connection()
            await self._set_silent(None)

    @property
    def _name_prefix(self) -> str:
        return f"sluice:{self._cluster}:"

    def _key(self, engine: str) -> str:
        """The braces make a Redis Cluster keep all keys of this cluster of gateways at one node."""
        return f"sluice:lease:{{{self._cluster}}}:{engine}"

    async def _exchange(self, commands: Callable[[], list[Sequence[Any]]]) -> list[Any]:
        """Sends all, then reads all. `commands` are asked for when the connection stands."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(_ANSWERS_WITHIN_S):
                    connection = await self._connected()
                    try:
                        return await _answers(connection, commands())
                    except NoScriptError:  # somebody has flushed them
                        await _answers(connection, [_LOAD])
                        return await _answers(connection, commands())
            except TimeoutError:
                await self._stay_seen()
                raise StoreAwayError(f"no answer within {_ANSWERS_WITHIN_S:g} s") from None
            except _NotPermittedError:
                raise
            except (RedisError, OSError, ValueError) as error:
                await self._stay_seen()
                refused = isinstance(error, (AuthenticationError, NoPermissionError))
                if refused or "max number of clients" in f"{error}":
                    raise StoreRefusedError(_in_words(error)) from error
                raise StoreAwayError(_in_words(error)) from error
            except BaseException:
                # What it still answers would be taken for the answer to the next question.
                await self._drop_connection()
                raise

    async def _connected(self) -> AbstractConnection:
        if self._connection is None:
            connection = await self._route.connect()
            try:
                info, script = await _answers(connection, [("INFO", "server"), _LOAD])
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            found = _RUN_ID.search(info)
            self._run, self._script = found[1] if found else b"", script
            self._connection = connection
            await self._set_silent(None)
        return self._connection

    async def _stay_seen(self) -> None:
        """After a failure: the next question needs a new connection, but until it stands the old
        one stays open. A server that is silent, or out of memory, or read-only, may be there for
        the others, who would take its closing for our death."""
        if self._connection is not None:
            await self._set_silent(self._connection)

    async def _set_silent(self, connection: AbstractConnection | None) -> None:
        """In place of the one before, which is closed."""
        before, self._silent = self._silent, connection
        if connection is not None:
            self._connection = None
        if before is not None and before is not connection:
            await _closed(before)

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _closed(connection)


class _NotPermittedError(Exception):
    """The connection may go on; this user may not ask that."""


async def _answers(connection: AbstractConnection, commands: list[Sequence[Any]]) -> list[Any]:
    packed = connection.pack_commands(commands)
    await connection.send_packed_command(packed)
    answers: list[Any] = []
    error: RedisError | None = None
    for command in commands:
        try:
            answers.append(await connection.read_response(disconnect_on_error=False))
        except (BusyLoadingError, ResponseError) as one:
            error = _about(command, one)  # the others are read all the same
    if isinstance(error, NoPermissionError) and commands[0][0] == "CLIENT":
        raise _NotPermittedError
    if error is not None:
        raise error
    return answers


def _about(command: Sequence[Any], error: RedisError) -> RedisError:
    """With the key of the leases in it: what stands there may be another program's."""
    if command[0] != "EVALSHA" or isinstance(error, NoScriptError):
        return error
    return type(error)(f"{error} (key {command[3]})")


async def _closed(connection: AbstractConnection) -> None:
    with contextlib.suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)


def _in_words(error: Exception) -> str:
    return f"{error}" or type(error).__name__
