"""Which header fields cross the gateway, and which are this hop's own.

Everything passes as it came, in order and repeated as often as it came, but for: what belongs to
one connection (RFC 9110, section 7.6.1: the hop-by-hop fields and whatever `Connection` names),
the framing, the request id, and the credentials. Nothing is invented: a client that sent no
`accept-encoding` reaches the engine without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.upstream.port import RawHeaders

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_REQUEST_DROPPED = _HOP_BY_HOP | {
    b"content-length",  # the body is whole when it is sent on; the upstream client frames it
    b"expect",  # answered, if at all, by the server that the client talks to
    b"host",
    b"x-request-id",
}
_RESPONSE_DROPPED = _HOP_BY_HOP | {b"x-request-id"}
_REQUEST_DROPPED_WITH_AUTHORIZATION = _REQUEST_DROPPED | {b"authorization"}
_REQUEST_DROPPED_WITH_CREDENTIALS = _REQUEST_DROPPED | {b"authorization", b"x-api-key"}
_RESPONSE_DROPPED_WITH_LENGTH = _RESPONSE_DROPPED | {b"content-length"}
_BODILESS = frozenset({204, 304})
# Said in nearly every Connection header, and no field names worth a second look. Nor may it name
# the type of the body: we have judged the body by it, and the engine would read it as another.
_ORDINARY_OPTIONS = frozenset({b"keep-alive", b"close", b"", b"content-type"})


def bearer(key: str | None) -> bytes | None:
    """The Authorization value for an API key; None when there is none (empty means unset)."""
    return f"Bearer {key}".encode() if key else None


def request_headers(
    headers: Iterable[tuple[bytes, bytes]],
    *,
    authority: bytes,
    request_id: bytes,
    upstream_authorization: bytes | None = None,
    client_is_authenticated: bool = False,
) -> RawHeaders:
    """The fields for the engine, final but for the Content-Length that the upstream client adds.

    | upstream key | client authenticated by us | Authorization at the engine | x-api-key |
    | --- | --- | --- | --- |
    | set | no | `Bearer <upstream key>` | the client's |
    | set | yes | `Bearer <upstream key>` | none |
    | unset | no | the client's | the client's |
    | unset | yes | none | none |

    A client that we authenticated sent *our* key, which is nothing for the engine to see.
    """
    dropped = _REQUEST_DROPPED
    if client_is_authenticated:
        dropped = _REQUEST_DROPPED_WITH_CREDENTIALS
    elif upstream_authorization is not None:
        dropped = _REQUEST_DROPPED_WITH_AUTHORIZATION
    passed = _passing(headers, dropped)
    passed.insert(0, (b"host", authority))
    if upstream_authorization is not None:
        passed.append((b"authorization", upstream_authorization))
    passed.append((b"x-request-id", request_id))
    return passed


def response_headers(headers: RawHeaders, *, request_id: bytes, status: int) -> RawHeaders:
    """The fields for the client. Content-Length stays only where it frames the body: not in a 204
    or 304, which have none, and not beside a Transfer-Encoding, which overrules it."""
    dropped = _RESPONSE_DROPPED
    if status in _BODILESS or has_field(headers, b"transfer-encoding"):
        dropped = _RESPONSE_DROPPED_WITH_LENGTH
    passed = _passing(headers, dropped)
    passed.append((b"x-request-id", request_id))
    return passed


def has_field(headers: Iterable[tuple[bytes, bytes]], lower_name: bytes) -> bool:
    """Whether a field is there; lengths are compared first, which settles nearly every one."""
    length = len(lower_name)
    for name, _value in headers:  # noqa: SIM110 - any() would double its cost, on every answer
        if len(name) == length and name.lower() == lower_name:
            return True
    return False


def _passing(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> RawHeaders:
    """One pass over the fields; a second one only when `Connection` names some of them."""
    passed = []
    named: set[bytes] = set()
    for field in headers:
        name = field[0].lower()
        if name not in dropped:
            passed.append(field)
        elif name == b"connection":
            named |= _options(field[1])
    if named:
        passed = [field for field in passed if field[0].lower() not in named]
    return passed


def _options(value: bytes) -> set[bytes]:
    options = {option.strip() for option in value.lower().split(b",")}
    return options - _ORDINARY_OPTIONS
