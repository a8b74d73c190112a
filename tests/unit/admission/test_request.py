from __future__ import annotations

import dataclasses

import pytest

from proxy.admission.request import AdmissionRequest, Priority


@pytest.mark.parametrize("seats", [0, -1])
def test_a_request_takes_at_least_one_seat(seats: int) -> None:
    with pytest.raises(ValueError, match=str(seats)):
        AdmissionRequest(seats=seats, deadline=1.0)


def test_a_request_never_changes() -> None:
    request = AdmissionRequest(seats=1, deadline=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.seats = 2  # type: ignore[misc]  # that it cannot is the test


def test_high_priority_sorts_before_low() -> None:
    assert sorted([Priority.LOW, Priority.HIGH, Priority.NORMAL]) == [
        Priority.HIGH,
        Priority.NORMAL,
        Priority.LOW,
    ]
