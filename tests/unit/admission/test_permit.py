from __future__ import annotations

import pytest

from proxy.admission.account import Claim
from proxy.admission.permit import Ending, Permit
from proxy.admission.request import AdmissionRequest

REQUEST = AdmissionRequest(seats=2, deadline=1.0)
CLAIM = Claim("engine", 2)


def permit_with_endings() -> tuple[Permit, list[Ending]]:
    endings: list[Ending] = []
    permit = Permit(
        REQUEST, CLAIM, 0.0, 0.0, lambda _, ending: endings.append(ending), lambda _: None
    )
    return permit, endings


@pytest.mark.parametrize("ending", list(Ending))
def test_each_word_ends_the_permit_in_its_own_way(ending: Ending) -> None:
    permit, endings = permit_with_endings()
    getattr(permit, ending.value)()
    assert endings == [ending]
    assert permit.ending is ending


def test_only_the_first_word_counts() -> None:
    permit, endings = permit_with_endings()
    permit.drop()
    permit.complete()
    permit.ignore()
    assert endings == [Ending.DROP]


def test_a_permit_that_is_told_while_it_ends_that_it_ends_gives_back_once() -> None:
    endings: list[Ending] = []

    def give_back(permit: Permit, ending: Ending) -> None:
        endings.append(ending)
        permit.ignore()

    Permit(REQUEST, CLAIM, 0.0, 0.0, give_back, lambda _: None).complete()
    assert endings == [Ending.COMPLETE]


def test_its_repr_says_what_is_held_where() -> None:
    permit, _ = permit_with_endings()
    assert repr(permit) == "<Permit 2 seats at engine, held>"
    permit.complete()
    assert repr(permit) == "<Permit 2 seats at engine, complete>"


def test_endings_have_the_names_that_observers_write_down() -> None:
    assert [str(ending) for ending in Ending] == ["complete", "ignore", "drop"]
