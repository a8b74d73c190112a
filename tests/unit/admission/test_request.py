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


def test_what_is_not_said_of_a_request_is_that_it_is_an_ordinary_first_try_of_nobody() -> None:
    assert AdmissionRequest(1, 5.0)[2:] == (0, 0, "", Priority.NORMAL, 0, None, None, False)


def test_priorities_count_up_from_the_highest() -> None:
    assert [int(priority) for priority in Priority] == [0, 1, 2]
