"""An engine as a process of its own, real or simulated: where it is, and what it says of itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.metrics_page import samples_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

MODEL = "tiny"
MAX_NUM_SEQS = 8
MAX_MODEL_LEN = 2048
# So few that a long prompt takes many steps, and can be left in the middle.
MAX_NUM_BATCHED_TOKENS = 64

# With --enable-log-requests.
_ABORT_LINE = re.compile(r"Request \S+ aborted\.")
_STOP_WITHIN_S = 20.0
_SHOWN_LOG_LINES = 60
# For plain HTTP. To load the system's authorities takes longer than a request does.
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A server that answers its health check. `url` has no slash at its end; `log` is the file it
    writes to; `api_key` is what it asks for, None for nothing."""

    url: str
    log: Path
    pid: int
    api_key: str | None = None
    model: str = MODEL
    max_num_seqs: int = MAX_NUM_SEQS
    max_model_len: int = MAX_MODEL_LEN

    def client(self) -> httpx.Client:
        """Talks to the engine directly, with its key."""
        headers = {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=30.0,
            trust_env=False,
            verify=_NO_AUTHORITIES,
        )

    def metrics_page(self) -> str:
        return _get(f"{self.url}/metrics").text

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels; a KeyError without any."""
        wanted = labels.items()
        found = samples_of(self.metrics_page(), name)
        values = [value for (_, having), value in found.items() if wanted <= having]
        if not values:
            raise KeyError(f"{name}{labels} is not on the page")
        return sum(values)

    @property
    def running(self) -> int:
        return int(self.metric("vllm:num_requests_running"))

    @property
    def waiting(self) -> int:
        return int(self.metric("vllm:num_requests_waiting"))

    def finished(self, reason: str) -> int:
        """Sequences that ended so: stop, length, abort, error."""
        return int(self.metric("vllm:request_success_total", finished_reason=reason))

    @property
    def aborted(self) -> int:
        """Requests of one sequence that were given up by their clients.

        vLLM 0.32 has no metric for them: it forgets such a request before it could count it as
        finished. Its log tells; the simulator has a metric of its own.
        """
        with contextlib.suppress(KeyError):
            return int(self.metric("sluice_sim_aborted_total"))
        return len(_ABORT_LINE.findall(self.log.read_text(errors="replace")))

    def end_of_log(self) -> str:
        """The last lines, for whoever has to find out why a test failed."""
        with self.log.open(errors="replace") as lines:
            return "".join(deque(lines, _SHOWN_LOG_LINES))


@contextlib.contextmanager
def running_engine(
    command: Sequence[str],
    server: Callable[[int], EngineProcess],
    *,
    log: Path,
    environment: Mapping[str, str],
    ready_within_s: float,
) -> Iterator[EngineProcess]:
    """Starts `command`, whose `server` is told its process id; stops it by process id.

    Fails the test with the end of the log if it does not become healthy in time.
    """
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603 - a test's own command
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    engine = server(process.pid)
    try:
        _wait_until_healthy(engine, process, ready_within_s)
        yield engine
    finally:
        _stop(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(holds: Callable[[], bool], what: str, within_s: float = 10.0) -> None:
    """Waits for a state of another process; fails with `what` when it does not come."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        time.sleep(0.02)


def _get(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False, verify=_NO_AUTHORITIES)


def _wait_until_healthy(
    engine: EngineProcess, process: subprocess.Popen[bytes], within_s: float
) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if _get(f"{engine.url}/health").status_code == 200:
                return
        time.sleep(0.05)
    how = "did not become healthy" if process.returncode is None else "ended while starting"
    pytest.fail(f"the engine {how}; the end of {engine.log}:\n{engine.end_of_log()}", pytrace=False)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """vLLM has helper processes; all are in the session that the first one was given."""
    _signal_all(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_WITHIN_S)
    _signal_all(process.pid, signal.SIGKILL)
    process.wait()


def _signal_all(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
