"""docs/security.md names the test that holds each line of its tables, and the test is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from proxy.config import SECRETS, variable_name

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
HELD = r"^\| may (?:try|look for) \|.*\| held by \|\n\|[- |]+\|\n((?:\|.*\|\n)+)"
TABLES = re.findall(HELD, PAGE, re.MULTILINE)


@cache
def functions_of(file: str) -> frozenset[str]:
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in nodes if isinstance(node, kinds))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_a_test_that_is_named_is_there(file: str, name: str) -> None:
    assert name.startswith("test_")
    assert name in functions_of(file)


def test_no_line_is_without_a_test() -> None:
    assert len(TABLES) >= 6
    rows = [row for table in TABLES for row in table.splitlines()]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"`[\w/]+\.py::\w+` \|$", row)] == []


def test_what_was_never_written_is_not_found() -> None:
    assert "test_no_line_is_without_a_test" in functions_of("architecture/test_security_page.py")
    assert "test_that_there_is_not" not in functions_of("architecture/test_security_page.py")
    assert functions_of("architecture/no_such_file.py") == frozenset()


def test_every_secret_is_named() -> None:
    assert [one for one in map(variable_name, SECRETS) if f"`{one}`" not in PAGE] == []
