"""Who may ask: the gateway's own client keys."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from proxy.env_values.key_digest import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.env_values.key_digest import KeyDigest

_BEARER = b"bearer"


class ApiKeys:
    """A set of named keys. Only hashes are kept, compared in constant time.

    The hash is there so that every comparison runs over the same length and a memory dump shows no
    key.
    """

    def __init__(self, keys: Mapping[str, KeyDigest]) -> None:
        """`keys` by name; empty means that nobody is asked for one."""
        self._hashes = {name: key.sha256 for name, key in keys.items()}

    @property
    def required(self) -> bool:
        return bool(self._hashes)

    def holder(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The name of the key that these raw headers present, None when it is none of ours.

        A key comes as `Authorization: Bearer` or, as Anthropic's SDK sends it, as `x-api-key`.
        More than one credential of a kind is none: whoever reads another one than we do would be
        fooled.
        """
        authorization = [value for name, value in headers if name == b"authorization"]
        api_key = [value for name, value in headers if name == b"x-api-key"]
        if len(authorization) > 1 or len(api_key) > 1:
            return None
        presented = _bearer(authorization[0]) if authorization else (api_key or [b""])[0]
        return self._name_of(presented) if presented else None

    def _name_of(self, presented: bytes) -> str | None:
        digest = sha256_of(presented)
        found = None
        for name, known in self._hashes.items():  # all of them: time must not tell which matched
            if hmac.compare_digest(digest, known):
                found = name
        return found


def _bearer(value: bytes) -> bytes:
    scheme, _, credential = value.partition(b" ")
    return credential.strip() if scheme.lower() == _BEARER else b""
