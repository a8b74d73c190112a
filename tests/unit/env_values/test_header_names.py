"""Names of headers that a setting may choose."""

from __future__ import annotations

import pytest

import proxy.edge.request_headers
import proxy.upstream.header_rules
from proxy.env_values.header_names import RESERVED, header_name


@pytest.mark.parametrize(
    ("written", "name"),
    [("X-Tenant", "x-tenant"), ("x-sluice-priority", "x-sluice-priority"), ("org_id", "org_id")],
)
def test_a_name_is_read_in_lower_case_as_headers_are_compared(written: str, name: str) -> None:
    assert header_name(written) == name


def test_there_may_be_none() -> None:
    assert header_name(None) is None


@pytest.mark.parametrize(
    "written", ["", "x tenant", "x-tenant:", "x,y", "x-ténant", "x\n", "x" * 65]
)
def test_what_cannot_be_a_header_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must be a header name"):
        header_name(written)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_header_that_means_something_already_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="already has a meaning"):
        header_name(name.title())


def test_all_that_the_gateway_reads_or_keeps_from_the_engine_is_reserved() -> None:
    read = proxy.edge.request_headers._READERS.keys()
    kept_back = proxy.upstream.header_rules._REQUEST_DROPPED_WITH_CREDENTIALS
    choosable = {"x-sluice-priority"}
    assert {name.decode() for name in read | kept_back} - choosable <= RESERVED
