"""Starts processes on a core, waits until they answer, ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
_CHAT = b'{"model":"tiny","messages":[{"role":"user","content":"Hello"}]}'
_PATIENCE_S = 30.0


class NotMeasuredError(Exception):
    """A figure that could not be measured here, and why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours, without what would steer a contender unseen: settings, forward proxies, paths."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLUICE_", "PYTHON")) and not name.lower().endswith("_proxy")
    }
    return kept | {"PYTHONPATH": str(ROOT)} | dict(extra)


@contextlib.contextmanager
def running(
    core: int, command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[int]:
    """Yields the id of a process group of its own, in which the command runs on that core."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the contenders and the fake engine
            ["taskset", "-c", str(core), *command],  # noqa: S607 - wherever util-linux put it
            env=clean_environment(environment),
            cwd=log.parent,  # no .env file of ours
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Stopped first, so that it does not tell ten thousand clients goodbye one by one.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until_it_answers(port: int, group: int, log: Path) -> None:
    """Returns once a chat request was answered with 200. Raises NotMeasuredError if none is."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=_CHAT,
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up and _is_alive(group):
        with contextlib.suppress(OSError):
            opener.open(request, timeout=5).read()
            return
        time.sleep(0.05)
    last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
    raise NotMeasuredError(f"did not start: {last[0][:200]}")


def _is_alive(group: int) -> bool:
    try:
        stat = Path(f"/proc/{group}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
