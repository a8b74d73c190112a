"""One question to an engine, and what came of it; nothing that can go wrong is raised.

Every question takes a connection of its own: one that is kept alive would still work when the
engine's listener is gone, and may be closed by the engine just as it is used.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager


class Fault(Enum):
    """What the lack of an answer says about the engine."""

    ABSENT = auto()  # nothing listens there: refused, unreachable, no such host
    BROKEN = auto()  # what no live engine does twice: no HTTP answer, or not even a connection
    SILENT = auto()  # not much: there was a connection and no answer, as from one that is slow
    UNCLEAR = auto()  # nothing: the lack may be on our side


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is None when it is longer than was asked for. `from_sluice`: no engine wrote it, but a
    Sluice gateway that stands at that address."""

    status: int
    body: bytes | None
    from_sluice: bool = False


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """`reason` in plain words, with the error's number where there is one."""

    fault: Fault
    reason: str


# The kernel answers for a busy engine: whoever cannot be connected to is gone. Our own asks again
# after 1 and 3 s, should a packet have been lost.
_CONNECT_TIMEOUT_S = 4.0
# A limit that is noticed so late says that this process was held up: stopped, or swapped out. What
# came meanwhile it has not read yet.
_LATE_S = 1.0
_HELD_UP = "this process was held up while it asked"
# In each answer that Sluice gives itself, such as its 404 to /health; no engine has it.
_REASON_HEADER = "x-sluice-reason"
# A stranger's bytes may be part of them.
_LONGEST_WORDS = 200
_ABSENT = {
    errno.ECONNREFUSED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
}
_OURS = {errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_NO_SUCH_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class Probe:
    """Asks one engine; an async context manager that owns its HTTP client."""

    def __init__(
        self,
        root_url: str,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
        ip: str = "",
    ) -> None:
        """`root_url` is where the engine's /health lives: without /v1, without trailing slash.

        `ip` is where to connect to, in place of looking up the URL's host.
        `transport` replaces the network in tests.
        """
        self._ip = ip
        self._root_url = root_url
        is_tls = root_url.startswith("https:")
        # With TLS connecting takes a handshake, and for that a busy engine may be slow.
        fault = Fault.SILENT if is_tls else Fault.BROKEN
        self._connect_timeout_s = connect_timeout_s
        self._no_connection = NoAnswer(fault, f"no connection within {connect_timeout_s:g} s")
        self._client = httpx.AsyncClient(
            headers={"accept-encoding": "identity", **_bearer(api_key)},
            # The system's certificates, as the pool that carries the requests uses.
            verify=ssl.create_default_context() if is_tls else True,
            transport=transport,
            timeout=httpx.Timeout(None, connect=connect_timeout_s),  # get() bounds it all
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,  # a proxy from the environment is not on the way to the engine
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, timeout_s: float, max_bytes: int = 0) -> Answer | NoAnswer:
        """Asks for `path`; at 0 bytes only the status is waited for."""
        began = asyncio.get_running_loop().time()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._question(path) as response,
            ):
                body = await _read_at_most(response, max_bytes) if max_bytes else b""
                return Answer(response.status_code, body, _REASON_HEADER in response.headers)
        except httpx.ConnectTimeout:
            return _unless_held_up(began + self._connect_timeout_s, self._no_connection)
        except TimeoutError:
            silent = NoAnswer(Fault.SILENT, f"no answer within {timeout_s:g} s")
            return _unless_held_up(began + timeout_s, silent)
        except Exception as error:  # noqa: BLE001 - a stranger's bytes may provoke any
            return _explain(error)

    def _question(self, path: str) -> AbstractAsyncContextManager[httpx.Response]:
        if not self._ip:
            return self._client.stream("GET", self._root_url + path)
        named = httpx.URL(self._root_url + path)
        return self._client.stream(
            "GET",
            named.copy_with(host=self._ip),
            headers={"host": named.netloc.decode()},
            extensions={"sni_hostname": named.raw_host.decode()},
        )


def _bearer(api_key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def _unless_held_up(due: float, found: NoAnswer) -> NoAnswer:
    is_late = asyncio.get_running_loop().time() - due > _LATE_S
    return NoAnswer(Fault.UNCLEAR, _HELD_UP) if is_late else found


async def _read_at_most(response: httpx.Response, max_bytes: int) -> bytes | None:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _explain(error: Exception) -> NoAnswer:
    causes = list(_os_errors(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return NoAnswer(Fault.BROKEN, f"TLS failed: {cause}")
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            fault = Fault.ABSENT if cause.errno in _NO_SUCH_HOST else Fault.UNCLEAR
            return NoAnswer(fault, f"the host name cannot be resolved ({cause.strerror})")
    for numbers, fault in ((_OURS, Fault.UNCLEAR), (_ABSENT, Fault.ABSENT)):
        for cause in causes:
            if cause.errno in numbers:
                return NoAnswer(fault, _in_words(cause))
    words = _in_words(causes[0]) if causes else str(error)[:_LONGEST_WORDS] or type(error).__name__
    return NoAnswer(Fault.BROKEN, f"no HTTP answer: {words}")


def _in_words(error: OSError) -> str:
    number = error.errno or 0
    return f"{os.strerror(number).lower()} ({errno.errorcode.get(number, number)})"


def _os_errors(error: BaseException | None) -> Iterator[OSError]:
    """The system's errors behind an httpx error, which wraps them several times over."""
    if error is None:
        return
    if isinstance(error, OSError) and error.errno is not None:
        yield error
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _os_errors(part)
    yield from _os_errors(error.__cause__ or error.__context__)
