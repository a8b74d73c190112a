"""Where spans go: the base URL of an OTLP/HTTP collector."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit


def collector_url(value: str | None) -> str | None:
    """Without a slash at its end. Raises ValueError for a URL of something else, or where the
    libraries are missing that talk to it."""
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be the base URL of a collector, such as http://collector:4318")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "must be a URL without credentials and query; headers for the collector go into "
            "OTEL_EXPORTER_OTLP_HEADERS"
        )
    if find_spec("opentelemetry") is None:
        raise ValueError(
            "needs OpenTelemetry: pip install 'vllm-sluice[otel]', "
            "or in a checkout .venv/bin/pip install -e '.[otel]'"
        )
    return value.rstrip("/")
