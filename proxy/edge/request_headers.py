"""What the gateway itself reads from a request's headers, on raw bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from proxy.admission.request import Priority
from proxy.env_values.plain_numbers import content_length, plain_number

if TYPE_CHECKING:
    from collections.abc import Callable

RawHeaders = list[tuple[bytes, bytes]]

_LONGEST_REQUEST_ID = 128
_LONGEST_TENANT = 128
_PRINTABLE = frozenset(range(0x20, 0x7F))


class BadHeaderError(ValueError):
    """A header that the gateway must act upon is malformed; the message names it and the rule.

    `headers` is what the others say: the answer still carries the client's request id.
    """

    def __init__(self, message: str, headers: RequestHeaders) -> None:
        super().__init__(message)
        self.headers = headers


@dataclass(slots=True)
class RequestHeaders:
    """The few headers that matter here. Times in seconds, None when absent."""

    request_id: bytes
    content_type: bytes = b""
    has_content_type: bool = False
    content_length: int | None = None
    queue_timeout_s: float | None = None
    client_timeout_s: float | None = None
    attempt: int = 0
    expects_continue: bool = False
    asks_preflight: bool = False
    priority: Priority = Priority.NORMAL
    tenant: str = ""
    session: bytes = b""
    fault: str = ""


class HeaderReader:
    """Reads the headers whose names are fixed, and those three whose names are settings."""

    __slots__ = ("_readers",)

    def __init__(
        self,
        priority_header: str = "x-sluice-priority",
        tenant_header: str = "",
        session_header: str = "",
    ) -> None:
        """Names in lower case; without a `tenant_header` no tenant is read, nor a session without
        a `session_header`."""
        self._readers = dict(_READERS)
        self._readers[priority_header.encode()] = partial(_read_priority, priority_header)
        if tenant_header:
            self._readers[tenant_header.encode()] = _read_tenant
        if session_header:
            self._readers[session_header.encode()] = _read_session

    def read(self, headers: RawHeaders) -> RequestHeaders:
        """One pass over the raw pairs (names in lower case).

        Raises BadHeaderError for a bad `x-sluice-*`, priority or Transfer-Encoding header and for
        a second Content-Type. The SDKs' own headers are hints: a bad value there counts as absent.
        """
        found = RequestHeaders(b"")
        readers = self._readers
        for name, value in headers:
            if name in readers:
                readers[name](found, value)
        if not found.request_id:
            found.request_id = new_request_id()
        if found.fault:
            raise BadHeaderError(found.fault, found)
        return found


def new_request_id() -> bytes:
    """For a request whose client gave none that can be used."""
    return b"%032x" % random.getrandbits(128)


def _read_request_id(found: RequestHeaders, value: bytes) -> None:
    if not found.request_id and len(value) <= _LONGEST_REQUEST_ID and _PRINTABLE.issuperset(value):
        found.request_id = value


def _read_content_type(found: RequestHeaders, value: bytes) -> None:
    # Frameworks go by the first of several or by the last: an engine that reads another one than
    # we do would run sequences that nobody has counted.
    if found.has_content_type:
        found.fault = "Content-Type must not be there twice"
    found.has_content_type = True
    found.content_type = value


def _read_content_length(found: RequestHeaders, value: bytes) -> None:
    # The server's parser has refused anything that is not one plain number.
    found.content_length = content_length(value) if value.isdigit() else None


def _read_transfer_encoding(found: RequestHeaders, value: bytes) -> None:
    # The server's parser has removed the chunks. Any other coding would still be on the body, and
    # the engine would not be told, for the field is not passed on.
    if value.lower() != b"chunked":
        found.fault = "Transfer-Encoding must be 'chunked', or not be there"


def _read_queue_timeout(found: RequestHeaders, value: bytes) -> None:
    seconds = _seconds(value)
    if seconds is None or seconds < 0:
        found.fault = "x-sluice-queue-timeout must be a number of seconds, 0 or more"
    found.queue_timeout_s = seconds


def _read_client_timeout(found: RequestHeaders, value: bytes) -> None:
    seconds = _seconds(value)
    if seconds is not None and seconds > 0:
        current = found.client_timeout_s
        found.client_timeout_s = seconds if current is None else min(seconds, current)


def _read_retry_count(found: RequestHeaders, value: bytes) -> None:
    if value.isdigit() and len(value) <= 4:
        found.attempt = int(value)


def _read_expect(found: RequestHeaders, value: bytes) -> None:
    found.expects_continue = value.lower() == b"100-continue"


def _read_priority(header: str, found: RequestHeaders, value: bytes) -> None:
    priority = _PRIORITIES.get(value.strip().lower())
    if priority is None:
        found.fault = f"{header} must be high, normal or low"
    else:
        found.priority = priority


def _read_tenant(found: RequestHeaders, value: bytes) -> None:
    found.tenant = value[:_LONGEST_TENANT].decode("latin-1").strip()


def _read_session(found: RequestHeaders, value: bytes) -> None:
    found.session = value


def _read_preflight(found: RequestHeaders, _value: bytes) -> None:
    found.asks_preflight = True


def _seconds(value: bytes) -> float | None:
    return plain_number(value.decode("latin-1"))


_READERS: dict[bytes, Callable[[RequestHeaders, bytes], None]] = {
    b"x-request-id": _read_request_id,
    b"content-type": _read_content_type,
    b"content-length": _read_content_length,
    b"transfer-encoding": _read_transfer_encoding,
    b"x-sluice-queue-timeout": _read_queue_timeout,
    b"x-stainless-read-timeout": _read_client_timeout,
    b"x-stainless-timeout": _read_client_timeout,
    b"x-stainless-retry-count": _read_retry_count,
    b"expect": _read_expect,
    b"access-control-request-method": _read_preflight,
}
_PRIORITIES = {priority.name.lower().encode(): priority for priority in Priority}
