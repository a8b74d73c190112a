"""docs/fault-matrix.md is what the tests in tests/faults hold the gateway to."""

from __future__ import annotations

from itertools import product

import pytest

from scripts.write_fault_matrix import PAGE, page
from tests.faults.matrix import FAULTS_IN_WORDS, POINTS_IN_WORDS, Fault, Impossible, Point
from tests.faults.rules import ROWS, rule


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m scripts.write_fault_matrix"


def test_every_fault_has_a_rule_for_every_point() -> None:
    assert set(ROWS) == set(Fault) == set(FAULTS_IN_WORDS)
    assert set(POINTS_IN_WORDS) == set(Point)
    assert {len(row) for row in ROWS.values()} == {len(Point)}


@pytest.mark.parametrize(("fault", "point"), list(product(Fault, Point)))
def test_a_cell_that_is_left_out_says_why(fault: Fault, point: Point) -> None:
    of = rule(fault, point)
    assert not isinstance(of, Impossible) or of.reason
