from __future__ import annotations

import pytest

from proxy.telemetry.instruments import Distribution, Tally


def test_a_tally_starts_at_zero() -> None:
    assert Tally().count == 0


def test_a_value_equal_to_a_bound_belongs_to_it() -> None:
    distribution = Distribution((0.1, 1.0))
    distribution.observe(0.1)
    assert distribution.snapshot().buckets == (("0.1", 1), ("1.0", 1), ("+Inf", 1))


def test_buckets_accumulate_and_the_last_one_holds_everything() -> None:
    distribution = Distribution((0.1, 1.0))
    for value in (0.05, 0.5, 0.5, 50.0):
        distribution.observe(value)
    seen = distribution.snapshot()
    assert seen.buckets == (("0.1", 1), ("1.0", 3), ("+Inf", 4))
    assert seen.count == 4
    assert seen.total == pytest.approx(51.05)


def test_a_snapshot_does_not_move_with_later_observations() -> None:
    distribution = Distribution((1.0,))
    before = distribution.snapshot()
    distribution.observe(0.5)
    assert before.count == 0


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0)])
def test_bounds_that_do_not_ascend_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must ascend"):
        Distribution(bounds)


def test_each_bucket_knows_the_last_request_that_fell_into_it() -> None:
    distribution = Distribution((1.0, 2.0))
    for value, of in ((0.5, b"a"), (0.7, b"b"), (9.0, "trace"), (1.5, b"")):
        distribution.observe(value, of)
    assert distribution.examples() == [(0.7, b"b"), None, (9.0, "trace")]
