"""The clients, started once, and the gateways in front of which they stand."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import CLIENTS, Running, installed
from tests.interop.site import Site
from tests.interop.stage import LoopThread, Stage
from tests.support.gateway_process import gateway
from tests.support.real_vllm import STARTING_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.engine_process import EngineProcess


@pytest.fixture(scope="session")
def clients() -> Iterator[Mapping[str, Running]]:
    """By name, all started together: the first import is the longest part of a driver's life."""
    home = installed()
    there = [client for client in CLIENTS if not client.heavy or (home / client.name).exists()]
    running = {client.name: Running.start(client, home) for client in there}
    try:
        yield running
    finally:
        for one in running.values():
            one.stop()


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    with LoopThread() as thread:
        yield thread


@pytest.fixture(scope="session")
def stage(simulated_vllm: EngineProcess, loop_thread: LoopThread) -> Iterator[Stage]:
    stage = Stage(simulated_vllm)
    try:
        loop_thread.run(stage.open())
        yield stage
    finally:
        loop_thread.run(stage.close())


_ON_THE_REAL_ONE = (pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S))


@pytest.fixture(
    scope="session",
    params=["simulator", pytest.param("vllm", marks=_ON_THE_REAL_ONE)],
)
def site(request: pytest.FixtureRequest, loop_thread: LoopThread) -> Iterator[Site]:
    """In front of an engine that generates."""
    if request.param == "simulator":
        stage: Stage = request.getfixturevalue("stage")
        yield Site(stage.url("serving"), stage.engine)
        return
    with _in_front_of(request.getfixturevalue("real_vllm"), loop_thread) as site:
        yield site


@pytest.fixture(
    scope="session",
    params=["simulator", pytest.param("vllm", marks=_ON_THE_REAL_ONE)],
)
def embedding_site(request: pytest.FixtureRequest, loop_thread: LoopThread) -> Iterator[Site]:
    """In front of an engine that embeds."""
    if request.param == "simulator":
        stage: Stage = request.getfixturevalue("stage")
        yield Site(stage.url("serving"), stage.engine)
        return
    with _in_front_of(request.getfixturevalue("real_embedding_vllm"), loop_thread) as site:
        yield site


@contextlib.contextmanager
def _in_front_of(engine: EngineProcess, loop_thread: LoopThread) -> Iterator[Site]:
    settings = {"upstream_api_key": engine.api_key} if engine.api_key else {}
    starting = gateway(
        engine.url,
        max_num_seqs=engine.max_num_seqs,
        start_within_s=STARTING_TIMEOUT_S,
        **settings,
    )
    sluice = loop_thread.run(starting.__aenter__())
    try:
        yield Site(sluice.url, engine)
    finally:
        loop_thread.run(starting.__aexit__(None, None, None))
