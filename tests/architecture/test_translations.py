"""The Chinese pages say what the English ones say, as far as a program can tell: the same commands,
settings, names and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.build_docs import lines_in_code

ROOT = Path(__file__).parents[2]
CHINESE = {"README.md": "README.zh-CN.md", "docs/start.md": "docs/start.zh-CN.md"}
PAIRS = pytest.mark.parametrize(("english", "chinese"), CHINESE.items(), ids=lambda name: name)

SETTING = re.compile(r"^\| `(SLUICE_\w+)` \|([^|]*)\|", re.MULTILINE)
COMMENT = re.compile(r"(^|\s+)# .*")


def page(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(text: str) -> list[tuple[str, list[str]]]:
    """The language of each block of code, and its lines without comments."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line, in_code in lines_in_code(text):
        if in_code and not inside:
            found.append((line.strip("` \n"), []))
        elif in_code and not line.startswith("```"):
            found[-1][1].append(COMMENT.sub("", line.rstrip()))
        inside = in_code and not (inside and line.startswith("```"))
    return found


def prose(text: str) -> str:
    return "".join(line for line, in_code in lines_in_code(text) if not in_code)


def names(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", prose(text)))


def links(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^()\s]+)\)", prose(text))) - {*CHINESE, *CHINESE.values()}


@PAIRS
def test_the_commands_are_the_same(english: str, chinese: str) -> None:
    there, here = blocks(page(english)), blocks(page(chinese))
    assert [language for language, _ in here] == [language for language, _ in there]
    assert [one for one in here if one[0]] == [one for one in there if one[0]]


@PAIRS
def test_the_settings_and_their_defaults_are_the_same(english: str, chinese: str) -> None:
    def rows(text: str) -> list[tuple[str, list[str]]]:
        return [(name, re.findall(r"`[^`]+`|\d+ %", cell)) for name, cell in SETTING.findall(text)]

    assert rows(page(chinese)) == rows(page(english))


@PAIRS
def test_whatever_is_named_in_one_is_named_in_the_other(english: str, chinese: str) -> None:
    assert names(page(chinese)) == names(page(english))


@PAIRS
def test_the_links_are_the_same(english: str, chinese: str) -> None:
    their_own = {"start.md", "start.zh-CN.md"}
    assert links(page(chinese)) - their_own == links(page(english)) - their_own


@PAIRS
def test_each_leads_to_the_other(english: str, chinese: str) -> None:
    assert f"]({Path(chinese).name})" in page(english)
    assert f"]({Path(english).name})" in page(chinese)


@PAIRS
def test_figures_are_the_same(english: str, chinese: str) -> None:
    def figures(text: str) -> set[str]:
        return set(re.findall(r"\d+\.\d+", prose(text)))

    assert figures(page(english)) <= figures(page(chinese))
