"""What every test folder shares: the engines, and an engine's log when a test on it fails."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.real_vllm import real_embedding_vllm, real_vllm
from tests.support.simulated_vllm import simulated_vllm, simulated_vllm_with_key

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["real_embedding_vllm", "real_vllm", "simulated_vllm", "simulated_vllm_with_key"]


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays to the end, and each full garbage collection would
    look through all of it: 0.3 s on two cores (2026-12-02), for each of the 800 tests on upstream
    clients."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    engines = {one.log: one for one in item.funcargs.values() if isinstance(one, EngineProcess)}
    if report.failed:
        for log, engine in engines.items():
            report.sections.append((f"the end of {log}", engine.end_of_log()))
    return report
