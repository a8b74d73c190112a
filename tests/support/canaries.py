"""Words that occur nowhere but where a test has put them, for each kind of secret one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "kAnaRy"


def canary(of: str) -> str:
    """Long enough for a key, and in a form that no filter knows as one."""
    return f"{MARK}-{of}-0123456789"


CLIENT_KEY = canary("client")
TENANT_KEY = canary("tenant")
WRONG_KEY = canary("wrong")
ENGINE_KEY = canary("engine")
ADMIN_TOKEN = canary("admin")
REDIS_PASSWORD = canary("redis")
PROMPT = canary("prompt")
QUERY = f"key={canary('query')}"

KEYS = f"app:{CLIENT_KEY},gold:{TENANT_KEY}"

HEADERS: dict[str, str] = {
    "authorization": f"Bearer {TENANT_KEY}",
    "cookie": f"session={canary('cookie')}",
    "x-secret": canary("header"),
    "user-agent": canary("agent"),
    "baggage": f"user={canary('baggage')}",
    "tracestate": f"vendor={canary('state').lower()}",
    "x-forwarded-for": canary("forwarded"),
}
BODY: dict[str, Any] = {
    "model": canary("model"),
    "messages": [
        {"role": "system", "content": canary("system")},
        {"role": "user", "content": PROMPT},
    ],
    "user": canary("user"),
    "tools": [{"type": "function", "function": {"name": canary("tool")}}],
}


def raw_headers(**changed: str) -> list[tuple[bytes, bytes]]:
    told = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return [(name.encode(), value.encode()) for name, value in told.items() if value]


def leaks(texts: Iterable[str | bytes]) -> list[str]:
    """Those in which a canary is."""
    found = (one if isinstance(one, str) else one.decode("utf-8", "replace") for one in texts)
    return [text for text in found if MARK.lower() in text.lower()]
