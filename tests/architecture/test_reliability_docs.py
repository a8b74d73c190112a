"""docs/reliability.md names tests that there are, and none of its promises goes without one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
LINK = re.compile(r"\[(\w+\.py)\]\(\.\./(tests/[\w/]+\.py)\)")
BARE = re.compile(r"\btests/[\w/]+\.py\b")


def promises() -> list[str]:
    """The rows of the tables whose second column says what holds the promise."""
    rows, is_promise = [], False
    for line in PAGE.splitlines():
        if line.startswith("| promised | held by |"):
            is_promise = True
        elif not line.startswith("|"):
            is_promise = False
        elif is_promise and not line.startswith("| ---"):
            rows.append(line)
    return rows


def test_each_test_that_the_page_names_exists() -> None:
    named = {path for _, path in LINK.findall(PAGE)} | set(BARE.findall(PAGE))
    assert len(named) > 20
    assert {path for path in named if not (ROOT / path).is_file()} == set()


def test_a_link_bears_the_name_of_its_file() -> None:
    assert all(Path(path).name == name for name, path in LINK.findall(PAGE))


def test_each_promise_names_what_holds_it() -> None:
    rows = promises()
    assert len(rows) > 15
    for row in rows:
        held_by = row.strip("|").split(" | ")[-1]
        assert LINK.search(held_by), row


def test_each_heading_that_it_sends_readers_to_is_there() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= headings
