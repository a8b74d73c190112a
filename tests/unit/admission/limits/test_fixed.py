from __future__ import annotations

import pytest

from proxy.admission.limits.fixed import FixedLimit


@pytest.mark.parametrize("seats", [0, 1, 57])
def test_it_stays_what_it_is(seats: int) -> None:
    assert FixedLimit(seats).seats == seats


def test_a_negative_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="-1"):
        FixedLimit(-1)
