"""What is checked of mutation testing every time: `make mutation` takes too long for that."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutation.explanations import explanations
from tests.mutation.mutants import Mutant, all_modules, mutants_of
from tests.mutation.operators import mutations_of


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("a < b", ["a <= b"]),
        ("a is None", ["a is not None"]),
        ("a and b", ["a or b", "b", "a"]),
        ("not a", ["a"]),
        ("a - b", ["a + b"]),
        ("a if c else b", ["a", "b"]),
        ("min(a)", ["max(a)"]),
        ("7", ["8"]),
        ("True", ["False"]),
        ("math.inf", ["0.0"]),
        ("a", []),
    ],
)
def test_an_expression_is_changed_in_one_place(code: str, changed: list[str]) -> None:
    expression = ast.parse(code, mode="eval").body
    assert [ast.unparse(one) for one in mutations_of(expression)] == changed


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("a.b = c", ["pass"]),
        ("a = c", []),
        ("a += c", ["a -= c", "pass"]),
        ("f(a)", ["pass"]),
        ("raise a", ["pass"]),
        ("del a[b]", ["pass"]),
        ("del a", []),
        ("if a:\n    b", ["if True:\n    b", "if False:\n    b"]),
        ("while a:\n    b", ["while False:\n    b"]),
    ],
)
def test_a_statement_is_changed_or_left_out(code: str, changed: list[str]) -> None:
    mutations = [ast.fix_missing_locations(one) for one in mutations_of(ast.parse(code).body[0])]
    assert [ast.unparse(one) for one in mutations] == changed


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return [mutant for module in all_modules() for mutant in mutants_of(module)]


def test_every_module_of_the_core_has_mutants_each_with_a_name(mutants: list[Mutant]) -> None:
    assert {mutant.module for mutant in mutants} == set(all_modules())
    assert len(set(map(str, mutants))) == len(mutants)
    mutants[0].code()


def test_every_explanation_is_of_a_mutant_that_there_still_is(mutants: list[Mutant]) -> None:
    names = {(mutant.module, mutant.function, mutant.change) for mutant in mutants}
    stale = [one for one in explanations() if (one.module, one.function, one.change) not in names]
    assert stale == []


def test_every_explanation_is_given_once_and_says_why() -> None:
    each = Counter((one.module, one.function, one.change) for one in explanations())
    assert [name for name, times in each.items() if times > 1] == []
    assert [one for one in explanations() if len(one.why.split()) < 5] == []
