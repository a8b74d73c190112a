"""What any page names exists: commands with their options, settings, metrics, make targets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli.main import sluice
from proxy.config import variable_name
from proxy.settings import Settings
from scripts.build_docs import lines_in_code
from scripts.write_cli_reference import top_context

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
METRICS = (ROOT / "docs" / "metrics.md").read_text()
SETTINGS = {variable_name(field) for field in Settings.model_fields}

# Named because they are wrong, or made by Kubernetes.
NO_SETTINGS = {"SLUICE_PROT", "SLUICE_SERVICE_HOST"}

ENVIRONMENT = r"(?:[A-Z][A-Z_0-9]*=\S*\s+)*"
COMMAND = re.compile(rf"(?:^|[|;&]\s*|\$ ){ENVIRONMENT}(?:\.venv/bin/)?sluice\s+([a-z].*)")
MAKE_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)

of_every_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def code_lines(text: str) -> Iterator[str]:
    """Lines of blocks of code; one that goes on after a backslash is one line."""
    blocks = "".join(line for line, in_code in lines_in_code(text) if in_code)
    yield from blocks.replace("\\\n", " ").splitlines()


def commands(text: str) -> Iterator[list[str]]:
    for line in code_lines(text):
        for found in COMMAND.finditer(line):
            command = re.split(r"\s#\s|\s[|>&]|\s2>", found[1] + " ")[0]
            yield shlex.split(command)


@of_every_page
def test_a_command_in_a_page_is_one_with_options_that_it_has(page: Path) -> None:
    top = top_context()
    for name, *arguments in commands(page.read_text()):
        command = sluice.get_command(top, name)
        assert command is not None, f"sluice {name}"
        context = click.Context(command, top, info_name=name)
        command.make_parser(context).parse_args(arguments)  # raises for what it does not know


@of_every_page
def test_a_setting_in_a_page_is_one(page: Path) -> None:
    named = set(re.findall(r"\bSLUICE_[A-Z_]*[A-Z]\b", page.read_text()))
    assert named - NO_SETTINGS - SETTINGS == set()


@of_every_page
def test_a_metric_in_a_page_is_one(page: Path) -> None:
    exported = set(re.findall(r"^\| `(sluice_\w+)` \|", METRICS, re.MULTILINE))
    named = {
        re.sub(r"_(bucket|count|sum)$", "", name)
        for name in re.findall(r"`(sluice_[a-z_]*[a-z])\b", page.read_text())
    }
    assert named - exported == set()


@of_every_page
def test_a_make_target_in_a_page_is_one(page: Path) -> None:
    targets = set(MAKE_TARGET.findall((ROOT / "Makefile").read_text()))
    text = page.read_text()
    in_code = [line for line in code_lines(text) if line.startswith("make ")]
    in_words = re.findall(r"`(make [a-z][^`]*)`", text)
    named = {line.split()[1] for line in [*in_code, *in_words] if "=" not in line.split()[1]}
    assert named - targets == set()
