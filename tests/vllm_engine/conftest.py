"""The gateway in front of an engine, both as processes: on the real vLLM with `-m vllm`, and on the
simulator in every run, where the same promises hold."""

from __future__ import annotations

import pytest

from tests.support.engine_process import EngineProcess, wait_until
from tests.support.real_vllm import STARTING_TIMEOUT_S

_ON_THE_REAL_ONE = (pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S))


@pytest.fixture(
    params=[
        pytest.param("simulated_vllm", id="simulator"),
        pytest.param("real_vllm", id="vllm", marks=_ON_THE_REAL_ONE),
    ],
)
def engine(request: pytest.FixtureRequest) -> EngineProcess:
    """An engine that generates and asks for no key, with nothing left in it."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, EngineProcess)
    wait_until(lambda: found.running + found.waiting == 0, "an idle engine", within_s=15.0)
    return found


@pytest.fixture(
    params=[
        pytest.param("simulated_vllm_with_key", id="simulator"),
        pytest.param("real_embedding_vllm", id="vllm", marks=_ON_THE_REAL_ONE),
    ],
)
def embedding_engine(request: pytest.FixtureRequest) -> EngineProcess:
    """An engine that embeds and asks for a key."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, EngineProcess)
    return found
