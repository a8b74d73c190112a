from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge

from proxy.telemetry.page_format import written

PLAIN = "text/plain; version=0.0.4"


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("sluice_one", "One.", registry=registry).set(1)
    return registry


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
        (
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
            ),
            "application/openmetrics-text",
        ),
        ("text/html, text/plain;version=1.0.0;q=0.5", "text/plain; version=1.0.0"),
    ],
)
def test_the_page_is_as_it_is_asked_for(
    registry: CollectorRegistry, accept: str, content_type: str
) -> None:
    page, given = written(registry, accept)
    assert given.startswith(content_type)
    assert b"sluice_one 1.0" in page


@pytest.mark.parametrize(
    "version", ["", "1..0", "abc", "2.x", "1.0.0.beta", '"1.0.0"', "9" * 5_000]
)
@pytest.mark.parametrize("form", ["text/plain", "application/openmetrics-text"])
def test_who_asks_for_a_version_that_is_none_gets_plain_text(
    registry: CollectorRegistry, form: str, version: str
) -> None:
    page, given = written(registry, f"{form}; version={version}")
    assert given.startswith(PLAIN)
    assert b"sluice_one 1.0" in page
