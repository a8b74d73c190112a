"""What Sluice relies on in an engine, checked on the simulator and on the real vLLM.

Every test here runs on both (the real one with `-m vllm`), so that the simulator cannot drift. They
speak raw HTTP: an SDK would hide what is on the wire. What differs on purpose is not looked at:

| what                  | real vLLM 0.32                      | simulator                       |
| --------------------- | ----------------------------------- | ------------------------------- |
| words and token texts | random, some of no characters       | made up, always some characters |
| length of a prompt    | what the tokenizer makes of it      | an estimate                     |
| fields that are null  | a dozen more in every answer        | those that SDKs look at         |
| kind of engine        | generates or embeds, as started     | does both                       |
| start-up log          | `CPU KV cache size` on this machine | `GPU KV cache size`             |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import EngineProcess, wait_until
from tests.support.real_vllm import STARTING_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

_ON_THE_REAL_ONE = (pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S))


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("simulated_vllm", id="simulator"),
        pytest.param("real_vllm", id="vllm", marks=_ON_THE_REAL_ONE),
    ],
)
def engine(request: pytest.FixtureRequest) -> EngineProcess:
    """An engine that generates and asks for no key."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, EngineProcess)
    return found


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("simulated_vllm_with_key", id="simulator"),
        pytest.param("real_embedding_vllm", id="vllm", marks=_ON_THE_REAL_ONE),
    ],
)
def guarded_engine(request: pytest.FixtureRequest) -> EngineProcess:
    """An engine that embeds and asks for a key."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, EngineProcess)
    return found


@pytest.fixture
def idle_engine(engine: EngineProcess) -> EngineProcess:
    """With nothing left in it from the test before."""
    wait_until(lambda: engine.running + engine.waiting == 0, "an idle engine", within_s=15.0)
    return engine


@pytest.fixture
def http(engine: EngineProcess) -> Iterator[httpx.Client]:
    with engine.client() as client:
        yield client
