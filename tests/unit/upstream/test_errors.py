from __future__ import annotations

import errno
import os

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


def failed_with(number: int) -> errors.UpstreamConnectError:
    """As the httpx client meets it: an error of the system behind one of a library."""
    try:
        try:
            raise OSError(number, os.strerror(number))
        except OSError as cause:
            raise RuntimeError("all attempts failed") from cause
    except RuntimeError as error:
        return errors.UpstreamConnectError("no connection", error)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EADDRNOTAVAIL])
def test_what_our_own_machine_lacks_is_no_fault_of_the_engine(number: int) -> None:
    assert failed_with(number).is_ours


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ETIMEDOUT])
def test_an_engine_that_is_not_there_is_its_own_fault(number: int) -> None:
    assert not failed_with(number).is_ours
    assert not errors.UpstreamConnectError("no connection within 5 s").is_ours


def test_what_happened_can_be_told_without_where() -> None:
    error = errors.UpstreamClosedError(errors.said_of("10.0.0.1:8000#10.0.0.2", "it closed: early"))
    assert str(error) == "engine at 10.0.0.1:8000#10.0.0.2: it closed: early"
    assert error.what == "it closed: early"
    assert errors.UpstreamClosedError("it closed: early").what == "it closed: early"


def test_where_is_said_of_the_engines_faults_only() -> None:
    located = errors.located("gpu:8000", errors.UpstreamProtocolError("it answered in HTTP/9.9"))
    assert isinstance(located, errors.UpstreamProtocolError)
    assert str(located) == "engine at gpu:8000: it answered in HTTP/9.9"
    ours = MemoryError()
    assert errors.located("gpu:8000", ours) is ours
