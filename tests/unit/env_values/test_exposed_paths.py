"""Extra routes as they are written in SLUICE_EXPOSE."""

from __future__ import annotations

import pytest

from proxy.env_values.exposed_paths import parse_exposed_paths


def test_entries_are_a_method_and_a_path() -> None:
    written = "POST /invocations, get  /health,"
    assert parse_exposed_paths(written) == (("POST", "/invocations"), ("GET", "/health"))


def test_pairs_may_be_given_as_pairs() -> None:
    assert parse_exposed_paths([("GET", "/health")]) == (("GET", "/health"),)


def test_nothing_is_no_entry() -> None:
    assert parse_exposed_paths(" , ") == ()


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("/health", "'/health' must be a method and a path"),
        ("GET /a /b", "'GET /a /b' must be a method and a path"),
        ("FETCH /health", "'FETCH' is not one of GET"),
        ("CONNECT /health", "'CONNECT' is not one of GET"),
        ("GET health", "'health' must be one plain path"),
        ("GET http://evil.test/x", "must be one plain path"),
        ("GET /x?y=1", "must be one plain path"),
        ("GET /x#y", "must be one plain path"),
        ("GET /a\\b", "must be one plain path"),
        ("GET /ä", "must be one plain path"),
        ("GET /v1/../sleep", "must not have . or .. as a part"),
        ("GET /./sleep", "must not have . or .. as a part"),
        ("GET /health, GET", "'GET' must be a method and a path"),
    ],
)
def test_a_fault_is_named_with_its_entry(written: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"must|is not one of") as caught:
        parse_exposed_paths(written)
    assert fault in str(caught.value)


def test_something_that_is_no_list_is_refused() -> None:
    with pytest.raises(ValueError, match="METHOD /path"):
        parse_exposed_paths(5)
