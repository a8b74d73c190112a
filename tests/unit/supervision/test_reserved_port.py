"""A port that waits for the engine."""

from __future__ import annotations

import socket
import sys

import pytest

from proxy.supervision.reserved_port import LOOPBACK, reserved_port


def listening(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((LOOPBACK, port))
    server.listen()
    return server


def test_a_server_can_listen_there_again_and_again() -> None:
    with reserved_port() as port:
        for _ in range(3):
            with listening(port), socket.create_connection((LOOPBACK, port)):
                pass


def test_without_a_server_nobody_answers() -> None:
    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold it")
def test_whoever_does_not_share_ports_cannot_take_it() -> None:
    with reserved_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((LOOPBACK, port))


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"), reserved_port(port):
            pass
