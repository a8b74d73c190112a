"""The shape of the tree: where a module's tests are, and what must be nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy"
UNIT_TESTS = ROOT / "tests" / "unit"

LONGEST_FILE = 350
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
TOP_LEVEL_TEXT = ("*.md", "*.toml", "*.txt", "*.yaml", "Makefile", "Dockerfile", ".dockerignore")
A_MACHINES_OWN_PATH = re.compile(r"/(?:root|home|Users|work)/\w|\bC:\\\\")


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def modules() -> set[Path]:
    """Modules that hold code, relative to the package."""
    return {
        path.relative_to(PACKAGE)
        for path in python_files(PACKAGE)
        if path.name != "__init__.py" and path.read_text().strip()
    }


def mirror_of(module: Path) -> Path:
    return module.with_name(f"test_{module.stem.strip('_')}.py")


def unit_test_files() -> set[Path]:
    return {path.relative_to(UNIT_TESTS) for path in UNIT_TESTS.rglob("test_*.py")}


def texts() -> list[Path]:
    folders = ("proxy", "tests", "docs", "deploy", "scripts", ".ci")
    nested = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    top = [path for pattern in TOP_LEVEL_TEXT for path in ROOT.glob(pattern)]
    return [path for path in nested + top if "__pycache__" not in path.parts]


def test_every_module_has_its_unit_tests_beside_its_mirror_image() -> None:
    missing = {mirror_of(module) for module in modules()} - unit_test_files()
    assert sorted(map(str, missing)) == []


def test_every_unit_test_file_has_its_module() -> None:
    orphans = unit_test_files() - {mirror_of(module) for module in modules()}
    assert sorted(map(str, orphans)) == []


def test_package_inits_are_empty_but_for_the_version() -> None:
    inits = {path: path.read_text().strip() for path in PACKAGE.rglob("__init__.py")}
    assert re.fullmatch(r'__version__ = "[^"\n]+"', inits.pop(PACKAGE / "__init__.py"))
    assert [str(path) for path, text in inits.items() if text] == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {(PACKAGE / module).parent for module in modules()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_test_folders_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("folder", ["proxy", "tests"])
def test_no_file_has_a_name_that_says_nothing(folder: str) -> None:
    named = [
        str(path)
        for path in (ROOT / folder).rglob("*")
        if NAMES_THAT_SAY_NOTHING & set(re.split(r"[_.]", path.name))
    ]
    assert named == []


def test_files_of_the_package_stay_short_enough_to_read() -> None:
    lengths = {str(path): path.read_text().count("\n") for path in python_files(PACKAGE)}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_nothing_names_a_path_of_somebodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if A_MACHINES_OWN_PATH.search(line)
    ]
    assert found == []


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert dead == []
