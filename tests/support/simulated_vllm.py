"""The simulated engine as a process of its own, beside the real one of real_vllm.py."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import (
    MAX_MODEL_LEN,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    MODEL,
    EngineProcess,
    free_port,
    running_engine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

# About the pace of the tiny model on one core, and as much room for it.
_PACE = ("--step-ms", "3", "--decode-sequence-us", "60", "--prefill-token-us", "10")
_KV_CACHE_TOKENS = 1_048_576
_READY_WITHIN_S = 15.0


def running_simulator(
    log: Path, *arguments: str, api_key: str | None = None, port: int | None = None
) -> AbstractContextManager[EngineProcess]:
    """A simulator, on a free port if none is named, with these arguments besides those of every
    test."""
    port = port or free_port()
    key = ("--api-key", api_key) if api_key else ()
    command = [
        *(sys.executable, "-m", "proxy", "sim", "--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", MODEL, "--kv-cache-tokens", str(_KV_CACHE_TOKENS)),
        *("--max-num-seqs", str(MAX_NUM_SEQS), "--max-model-len", str(MAX_MODEL_LEN)),
        *(*_PACE, *key, *arguments),
    ]
    return running_engine(
        command,
        lambda pid: EngineProcess(f"http://127.0.0.1:{port}", log, pid, api_key),
        log=log,
        environment={**os.environ, "PYTHONUNBUFFERED": "1"},
        ready_within_s=_READY_WITHIN_S,
    )


@pytest.fixture(scope="session")
def simulated_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """Asks for no key."""
    log = tmp_path_factory.mktemp("simulator") / "simulator.log"
    with running_simulator(log, "--max-num-batched-tokens", str(MAX_NUM_BATCHED_TOKENS)) as engine:
        yield engine


@pytest.fixture(scope="session")
def simulated_vllm_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """Asks for a key; the simulator embeds with any model."""
    log = tmp_path_factory.mktemp("simulator") / "guarded_simulator.log"
    with running_simulator(log, api_key="sk-engine") as engine:
        yield engine
