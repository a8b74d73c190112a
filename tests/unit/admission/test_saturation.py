from __future__ import annotations

import pytest

from proxy.admission.saturation import Saturation


def test_an_engine_that_tells_nothing_is_unknown() -> None:
    assert Saturation().is_unknown


@pytest.mark.parametrize(
    "told",
    [
        Saturation(waiting=0),
        Saturation(kv_cache_usage=0.0),
        Saturation(preemptions_per_s=0.0),
        Saturation(tpot_s=0.01),
    ],
)
def test_an_engine_that_tells_of_nothing_going_on_is_not_unknown(told: Saturation) -> None:
    assert not told.is_unknown
