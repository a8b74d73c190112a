from __future__ import annotations

import contextlib
import os
import socket
import sys
from urllib.parse import urlsplit

import click
import pytest

from proxy.cli.beside import child_serving_url, simulated_engine_beside

pytestmark = pytest.mark.usefixtures("clean_environment")

# Prints what it has to, tells its process id, and stays until it is told to go.
_CHILD = """
import os, signal, sys
print("starting up")
print(f"serving http://127.0.0.1:{os.getpid()}/v1/models and more", flush=True)
signal.pause()
"""
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _CHILD


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def pid_in(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_url_that_a_child_prints_is_given_without_what_follows_it() -> None:
    with child_serving_url(child(_CHILD)) as url:
        assert url == f"http://127.0.0.1:{pid_in(url)}"
        assert is_running(pid_in(url))
    assert not is_running(pid_in(url))


def test_a_child_is_stopped_when_what_it_was_for_fails() -> None:
    urls: list[str] = []

    def use_and_fail() -> None:
        with child_serving_url(child(_CHILD)) as url:
            urls.append(url)
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        use_and_fail()
    assert not is_running(pid_in(urls[0]))


def test_a_child_that_does_not_want_to_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.cli.beside._STOP_WITHIN_S", 0.05)
    with child_serving_url(child(_STUBBORN)) as url:
        pid = pid_in(url)
    assert not is_running(pid)


def test_a_child_has_a_session_of_its_own() -> None:
    with child_serving_url(child(_CHILD)) as url:
        assert os.getsid(pid_in(url)) == pid_in(url) != os.getsid(0)


def test_a_child_gets_the_environment_that_it_is_given() -> None:
    code = "import os; print('http://' + os.environ['WHERE'], flush=True); input()"
    with child_serving_url(child(code), {**os.environ, "WHERE": "here:1"}) as url:
        assert url == "http://here:1"


@pytest.mark.parametrize("quiet", [True, False])
def test_a_child_that_ends_without_a_url_is_an_error_that_says_so(quiet: bool) -> None:
    code = "import sys; print('no engine', 'today', file=sys.stderr); sys.exit(3)"
    with (
        pytest.raises(click.ClickException) as caught,
        child_serving_url(child(code), quiet=quiet),
    ):
        pytest.fail("there is nothing to serve")
    assert "did not start" in caught.value.message
    assert ("no engine today" in caught.value.message) is quiet  # else it is on the terminal


def test_the_simulated_engine_serves_for_as_long_as_it_is_needed() -> None:
    with simulated_engine_beside(7, quiet=True) as url:
        assert _get(url, b"/health").startswith(b"HTTP/1.1 200 ")
    with pytest.raises(ConnectionRefusedError):
        _get(url, b"/health")


def test_the_simulated_engine_ends_without_a_last_gasp(capfd: pytest.CaptureFixture[str]) -> None:
    """It reads its standard input in a thread, which must not be in the way of its exit."""
    with simulated_engine_beside(7) as url:
        assert _get(url, b"/health").startswith(b"HTTP/1.1 200 ")
    assert "Fatal" not in capfd.readouterr().err


def _get(url: str, path: bytes) -> bytes:
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 0)
    with contextlib.closing(socket.create_connection(address, timeout=5)) as connection:
        request = b"GET %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        connection.sendall(request % path)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
        return answer
