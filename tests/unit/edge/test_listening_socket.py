from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack
from typing import Any, Self

import pytest

from proxy.edge.listening_socket import MOST_IN_A_ROW, ListeningSocket


class Listener(ListeningSocket):
    """On this machine; connections are made to it with knock()."""

    def __enter__(self) -> Self:
        self.setblocking(False)
        self.bind(("127.0.0.1", 0))
        self.listen(100)
        return self

    def knock(self) -> socket.socket:
        return socket.create_connection(self.getsockname())


class WithoutDescriptors(Listener):
    tries = 0

    def _accept(self) -> tuple[int, object]:
        self.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


def accepted_in_a_row(listener: socket.socket, stack: ExitStack) -> int:
    for count in range(100):
        try:
            stack.enter_context(listener.accept()[0])
        except BlockingIOError:
            return count
    raise AssertionError("there was no end")


def test_so_many_are_accepted_in_a_row_and_the_others_next() -> None:
    with Listener() as listener, ExitStack() as stack:
        for _ in range(MOST_IN_A_ROW + 3):
            stack.enter_context(listener.knock())
        assert accepted_in_a_row(listener, stack) == MOST_IN_A_ROW
        assert accepted_in_a_row(listener, stack) == 3
        assert accepted_in_a_row(listener, stack) == 0


def test_without_descriptors_the_row_ends_at_once() -> None:
    with WithoutDescriptors() as listener:
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                listener.accept()
            with pytest.raises(BlockingIOError):
                listener.accept()
        assert listener.tries == 2


def test_asyncio_says_once_that_there_are_no_descriptors() -> None:
    """And not as often as connections may wait, each time with a timer of its own."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        said = asyncio.Queue[dict[str, Any]]()
        loop.set_exception_handler(lambda _, context: said.put_nowait(context))
        with WithoutDescriptors() as listener:
            server = await loop.create_server(asyncio.Protocol, sock=listener, backlog=100)
            with listener.knock():
                context = await said.get()
                server.close()
            assert "out of system resource" in context["message"]
            assert (listener.tries, said.qsize()) == (1, 0)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(scenario())
