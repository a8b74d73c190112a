"""The real vLLM with a tiny model on the CPU, as scripts/setup_vllm.sh installs it.

    pytestmark = [pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S)]

    def test_something(real_vllm: EngineProcess) -> None:
        assert real_vllm.running == 0

One server serves the whole session; it takes half a minute to come up, which the time limit of the
first test that asks for it must allow for. Where vLLM is not installed, such tests fail.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import (
    MAX_MODEL_LEN,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    EngineProcess,
    free_port,
    running_engine,
)
from tests.support.vllm_launch import vllm_command, vllm_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

# What a test may take that has to start a server first.
STARTING_TIMEOUT_S = 240

_SETUP = Path(__file__).parents[2] / "scripts" / "setup_vllm.sh"
_READY_WITHIN_S = 180.0


def running_vllm(
    log: Path, *arguments: str, api_key: str | None = None
) -> AbstractContextManager[EngineProcess]:
    """A server on a free port, with these arguments besides those of every test."""
    home = installed_vllm()
    port = free_port()
    key = ("--api-key", api_key) if api_key else ()
    return running_engine(
        _command(home, port, *key, *arguments),
        lambda pid: EngineProcess(f"http://127.0.0.1:{port}", log, pid, api_key),
        log=log,
        environment=vllm_environment(home, _core()),
        ready_within_s=_READY_WITHIN_S,
    )


@pytest.fixture(scope="session")
def real_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """Generates; asks for no key."""
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with running_vllm(log, "--max-num-batched-tokens", str(MAX_NUM_BATCHED_TOKENS)) as server:
        yield server


@pytest.fixture(scope="session")
def real_embedding_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """The same model as one that embeds; asks for a key."""
    log = tmp_path_factory.mktemp("vllm") / "embedding_vllm.log"
    with running_vllm(
        log, "--runner", "pooling", "--convert", "embed", api_key="sk-engine"
    ) as server:
        yield server


def installed_vllm() -> Path:
    checked = subprocess.run(  # noqa: S603 - our own script
        [_SETUP, "--check"], capture_output=True, text=True, check=False
    )
    if checked.returncode != 0:
        pytest.fail(checked.stderr.strip(), pytrace=False)
    return Path(checked.stdout.strip())


def _command(home: Path, port: int, *arguments: str) -> list[str]:
    return [
        # One core, so that the machine has another for the gateway and for the test.
        *("taskset", "-c", str(_core())),
        *vllm_command(home, port, *arguments),
        "--enable-log-requests",  # the only place where aborts are seen
        *("--max-num-seqs", str(MAX_NUM_SEQS), "--max-model-len", str(MAX_MODEL_LEN)),
    ]


def _core() -> int:
    return min(os.sched_getaffinity(0))
