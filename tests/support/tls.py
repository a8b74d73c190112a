"""A throw-away certificate authority, for servers on loopback."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import trustme


@dataclass(frozen=True)
class TlsPair:
    """Contexts for both ends: `client` trusts what `server` shows, and nothing else."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def tls_pair(*names: str) -> TlsPair:
    """Contexts for a server that answers to `names` (default: 127.0.0.1 and localhost)."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return TlsPair(server, client)
