"""Lengths come out as they are described."""

from __future__ import annotations

import random
from statistics import mean, quantiles

import pytest

from proxy.replay.synthetic.distribution import Fixed, Lognormal, parse_distribution
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s


def _drawn(written: str) -> list[float]:
    distribution, rng = parse_distribution(written, "it"), random.Random(1)
    return [distribution.draw(rng) for _ in range(20_000)]


def test_a_lognormal_has_the_percentiles_that_it_is_written_with() -> None:
    twentieths = quantiles(_drawn("lognormal:200,1500"), n=20)
    assert twentieths[9] == pytest.approx(200, rel=0.05)
    assert twentieths[18] == pytest.approx(1500, rel=0.05)
    assert max(_drawn("lognormal:200,1500")) <= 15_000


def test_uniform_exponential_and_fixed() -> None:
    uniform = _drawn("uniform:100-900")
    assert min(uniform) >= 100
    assert max(uniform) <= 900
    assert mean(_drawn("exponential:30")) == pytest.approx(30, rel=0.05)
    assert set(_drawn("512")) == {512}


def test_percentiles_may_be_named_and_values_may_have_units() -> None:
    assert parse_distribution("lognormal:p95=9,p50=3", "it") == Lognormal(3, 9)
    assert parse_distribution("2m", "it", duration_s) == Fixed(120)


@pytest.mark.parametrize(
    "written", ["", "normal:1,2", "uniform:9-1", "uniform:0-1", "lognormal:1", "lognormal:9,3", "0"]
)
def test_what_is_no_distribution_is_refused_by_name(written: str) -> None:
    with pytest.raises(BadSpecificationError, match="it"):
        parse_distribution(written, "it")
