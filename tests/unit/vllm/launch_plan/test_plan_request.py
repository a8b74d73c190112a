from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tests.support.plan_requests import request


def test_a_request_says_nothing_that_nobody_said() -> None:
    made = request()
    assert made.utilization is made.max_model_len is made.max_num_seqs is made.weights is None


def test_a_request_is_a_value() -> None:
    with pytest.raises(FrozenInstanceError):
        request().utilization = 0.5  # type: ignore[misc]
