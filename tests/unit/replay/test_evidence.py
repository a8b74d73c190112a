"""Any draw of blocks gives all figures anew; each block once gives those of the run."""

from __future__ import annotations

import pytest

from proxy.replay.block_bootstrap import blocks_for
from proxy.replay.evidence import METRICS, Evidence, Unit, measured
from tests.support.replay_records import completed, made_up_run, refused, result_of


def test_every_block_once_is_the_run_itself() -> None:
    result = made_up_run(seed=1, served=0.8, slo_ttft_s=0.6)
    blocks = blocks_for(60.0, 1.0)
    figures = Evidence(result, blocks).figures([1] * blocks.count)
    assert figures == pytest.approx(measured(result), rel=0.03)


def test_a_block_drawn_twice_counts_twice() -> None:
    result = result_of(completed(0.5, 1.0), refused(9.5), duration_s=10.0)
    blocks = blocks_for(10.0, 0.5)
    twice_first = [2] + [0] * (blocks.count - 1)
    figures = dict(zip(METRICS, Evidence(result, blocks).figures(twice_first), strict=True))
    named = {metric.name: value for metric, value in figures.items()}
    assert named["goodput_per_s"] == pytest.approx(0.2)
    assert (named["completed"], named["shed"], named["amplification"]) == (1.0, 0.0, 1.0)
    assert named["ttft_s.p50"] == pytest.approx(1.0, rel=0.006)


def test_a_draw_without_requests_has_no_shares_and_no_times() -> None:
    result = result_of(completed(0.5), duration_s=10.0)
    blocks = blocks_for(10.0, 0.5)
    figures = Evidence(result, blocks).figures([0] * blocks.count)
    for metric, value in zip(METRICS, figures, strict=True):
        assert value == (0.0 if metric.name.endswith("_per_s") else None), metric.name


def test_shares_are_of_what_was_offered() -> None:
    figures = zip(METRICS, measured(result_of(completed(0.0), refused(1.0))), strict=True)
    shares = {metric.name: value for metric, value in figures if metric.unit is Unit.SHARE}
    assert shares == {"completed": 0.5, "shed": 0.5, "failed": 0.0, "abandoned": 0.0}
    assert all(value is None for value in measured(result_of())[2:6])
