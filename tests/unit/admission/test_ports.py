"""A class that stands in for a port has the port's methods, with the same parameters."""

from __future__ import annotations

import inspect

import pytest

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.placement.bounded_ring import BoundedRing
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.ports import AdmissionObserver, Discipline, Limit, Placement
from proxy.admission.shadow import _GhostObserver
from tests.support.admission import MovableLimit, RecordingObserver


@pytest.mark.parametrize(
    ("port", "implementation"),
    [
        (AdmissionObserver, RecordingObserver),
        (AdmissionObserver, _GhostObserver),
        (Discipline, Fifo),
        (Discipline, PriorityDiscipline),
        (Placement, BoundedRing),
        (Placement, Roomiest),
    ],
)
def test_an_implementation_offers_every_method_of_its_port(
    port: type, implementation: type
) -> None:
    for name, method in inspect.getmembers(port, inspect.isfunction):
        if name.startswith("_") and name != "__len__":
            continue
        ours = getattr(implementation, name)
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(method).parameters
        ), name


@pytest.mark.parametrize("limit", [FixedLimit(3), MovableLimit(3)])
def test_a_limit_says_how_many_seats(limit: Limit) -> None:
    assert limit.seats == 3
