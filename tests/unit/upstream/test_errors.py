from __future__ import annotations

import pytest

from proxy.upstream import errors

CODES = {
    errors.UpstreamConnectError: "upstream_connect",
    errors.UpstreamProtocolError: "upstream_protocol",
    errors.UpstreamClosedError: "upstream_closed",
    errors.UpstreamTimeoutError: "upstream_timeout",
}


@pytest.mark.parametrize(("error", "code"), CODES.items(), ids=CODES.values())
def test_every_failure_has_the_code_that_clients_are_told(
    error: type[errors.UpstreamError], code: str
) -> None:
    assert error.code == code


def test_the_set_is_closed() -> None:
    assert set(errors.UpstreamError.__subclasses__()) == set(CODES)
