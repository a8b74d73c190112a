"""Two loads are the same when all that shapes them is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.replay_records import LOAD


def test_equal_loads_have_one_hash() -> None:
    assert replace(LOAD).hash == LOAD.hash


@pytest.mark.parametrize(
    "change",
    [
        {"source": "azure"},
        {"source_hash": "1" * 16},
        {"speed": 2.0},
        {"rate_per_s": None},
        {"duration_s": 11.0},
        {"timeout_s": 31.0},
        {"max_retries": 0},
        {"slo_ttft_s": 1.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_differs_makes_another_hash(change: dict[str, object]) -> None:
    assert replace(LOAD, **change).hash != LOAD.hash  # type: ignore[arg-type]
