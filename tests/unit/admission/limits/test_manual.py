from __future__ import annotations

import pytest

from proxy.admission.limits.manual import ManualLimit


def test_it_is_what_was_said_last() -> None:
    limit = ManualLimit(4)
    limit.set_most(2)
    assert (limit.seats, limit.ceiling, limit.widest, limit.held) == (2, 2, 2, 2)


def test_a_negative_limit_is_an_error() -> None:
    limit = ManualLimit(4)
    with pytest.raises(ValueError, match="-1"):
        limit.set_most(-1)
    assert limit.seats == 4
    limit.set_most(0)
    assert limit.seats == 0
