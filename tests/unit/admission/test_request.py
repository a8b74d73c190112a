from __future__ import annotations

import pytest

from proxy.admission.request import AdmissionRequest, Priority


def test_a_request_never_changes() -> None:
    request = AdmissionRequest(seats=1, deadline=1.0)
    with pytest.raises(AttributeError):
        request.seats = 2  # type: ignore[misc]  # that it cannot is the test


def test_high_priority_sorts_before_low() -> None:
    assert sorted([Priority.LOW, Priority.HIGH, Priority.NORMAL]) == [
        Priority.HIGH,
        Priority.NORMAL,
        Priority.LOW,
    ]
