from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import ConnectionPool
from proxy.upstream.port import UpstreamRequest, UpstreamTimeouts

ADDRESS = UpstreamAddress.parse("http://127.0.0.1:1")
MEMBERS = {
    "status",
    "headers",
    "is_exhausted",
    "is_readable",
    "pass_to",
    "read",
    "__aenter__",
    "__aexit__",
}


@pytest.mark.parametrize("implementation", [ConnectionPool, HttpxUpstream])
def test_every_implementation_has_every_member(
    implementation: type[ConnectionPool | HttpxUpstream],
) -> None:
    upstream = implementation(ADDRESS)
    assert callable(upstream.aclose)
    exchange = upstream.exchange(UpstreamRequest("GET", b"/", []))
    assert {member for member in MEMBERS if member in dir(exchange)} == MEMBERS


def test_the_timeouts_are_the_documented_ones_and_do_not_change() -> None:
    timeouts = UpstreamTimeouts()
    assert (timeouts.connect_s, timeouts.first_byte_s, timeouts.idle_s) == (5, 600, 120)
    assert timeouts.total_s is None
    with pytest.raises(FrozenInstanceError):
        timeouts.idle_s = 1  # type: ignore[misc]
