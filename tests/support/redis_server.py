"""A real Redis, or Valkey, on a free port: started for some tests, stopped by its process id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.network_namespaces import Host


def _programs() -> tuple[str, ...]:
    """SLUICE_TEST_REDIS_SERVER names another one, to try the tests on it."""
    return os.environ.get("SLUICE_TEST_REDIS_SERVER", ""), "redis-server", "valkey-server"


@dataclass
class RedisServer:
    """`arguments` as on its command line. It forgets everything when it ends, unless told. It runs
    on `host`, or here."""

    directory: Path
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    host: Host | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = next(filter(None, map(shutil.which, _programs())), None)
        if program is None:  # CI installs one, and fails on a skip
            pytest.skip("needs redis-server or valkey-server: apt-get install redis-server")
        self.process = subprocess.Popen(  # noqa: S603 - a test's own command
            [*(self.host.run_by if self.host else ()), program, *self.command_line()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(self.answers, "an answer of the Redis server")
        except BaseException:
            self.stop()
            raise

    def command_line(self) -> list[str]:
        return [
            *("--port", str(self.port), "--bind", "*" if self.host else "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(self.directory)),
            *self.arguments,
        ]

    def answers(self) -> bool:
        address = self.host.address if self.host else "127.0.0.1"
        with contextlib.suppress(OSError), socket.create_connection((address, self.port)) as it:
            it.sendall(b"PING\r\n")
            return bool(it.recv(64))
        return False

    def command(self, *words: str) -> bytes:
        """The beginning of the answer, as it comes."""
        with socket.create_connection(("127.0.0.1", self.port)) as it:
            parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
            it.sendall("".join(parts).encode())
            return it.recv(1 << 16)

    def pause(self) -> None:
        """It stays there and says nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class SentinelServer(RedisServer):
    """Watches one primary as `main`, alone, and takes it for dead after half a second."""

    def watch(self, primary: RedisServer) -> None:
        (self.directory / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\n"
            f"sentinel monitor main 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds main 500\n"
            "sentinel failover-timeout main 5000\n"
        )
        self.start()

    def command_line(self) -> list[str]:
        return [str(self.directory / "sentinel.conf"), "--sentinel"]


@contextlib.contextmanager
def running_redis(directory: Path, *arguments: str) -> Iterator[RedisServer]:
    server = RedisServer(directory, arguments)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def running_sentinel(directory: Path, primary: RedisServer) -> Iterator[SentinelServer]:
    server = SentinelServer(directory)
    server.watch(primary)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server
