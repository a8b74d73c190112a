"""Which Pythons Sluice says that it is for, and what looks for them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from scripts import test_versions as module
from scripts.test_versions import Interpreter, Ran, ask_version, counted, found, report, table

ROOT = Path(__file__).parents[2]
HERE = Interpreter("3.13.0", "python3.13")


def ran(passed: int = 5, *failed: str) -> Ran:
    return Ran("3.13.0", "core", "", passed, failed, 12.4)


def test_the_versions_that_are_tried_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    said = [line.removeprefix(prefix) for line in project["classifiers"] if prefix in line]
    assert tuple(said) == module.VERSIONS
    assert project["requires-python"] == f">={module.VERSIONS[0]}"


def test_every_version_has_a_row_in_the_docs() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, _, section = page.partition("## Python and event loops")
    for version in module.VERSIONS:
        assert f"| {version}" in section.partition("\n## ")[0]


def test_the_newest_that_is_there_makes_the_environment() -> None:
    script = (ROOT / "scripts" / "make_venv.sh").read_text()
    newest_first = " ".join(f"python{version}" for version in reversed(module.VERSIONS))
    assert f"${{wanted:-{newest_first} " in script


def test_an_interpreter_says_which_it_is() -> None:
    one = ask_version(sys.executable)
    assert one is not None
    assert one.version == ".".join(map(str, sys.version_info[:3]))
    assert ask_version("no-such-python") is None
    assert ask_version("false") is None


def test_the_first_of_each_version_is_taken_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"a": "3.13.1", "b": "3.11.7", "c": "3.13.0", "d": "3.10.2"}
    monkeypatch.setattr(
        module, "ask_version", lambda command: Interpreter(versions[command], command)
    )
    assert [one.command for one in found([*versions])] == ["b", "a"]


def test_what_failed_as_marked_has_passed_and_what_was_skipped_or_left_no_report_has_not(
    tmp_path: Path,
) -> None:
    page = tmp_path / "report.xml"
    assert counted(page) == (0, ("no report: the run broke off",))
    page.write_text(
        '<testsuites><testcase classname="a" name="1"/>'
        '<testcase classname="a" name="2"><failure/></testcase>'
        '<testcase classname="a" name="3"><skipped type="pytest.xfail"/></testcase>'
        '<testcase classname="a" name="4"><skipped type="pytest.skip"/></testcase></testsuites>'
    )
    assert counted(page) == (
        2,
        ("failed: a::2", "skipped, and not on the list of allowed skips: a::4"),
    )


def test_a_row_for_each_run() -> None:
    assert table([ran()]).splitlines()[2] == (
        "| 3.13.0 | core | in virtual time, or both | 5 | 0 | 12 |"
    )


@pytest.mark.parametrize(("run", "code"), [(ran(), 0), (ran(5, "a::b"), 1), (ran(0), 1)])
def test_the_end_says_what_was_not_here_and_how_it_went(
    run: Ran, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report([run], [HERE]) == code
    said = capsys.readouterr().out
    assert "Not here, and not tried: 3.11, 3.12, 3.14" in said
    assert said.endswith(f"{run.passed} passed, {len(run.failed)} failed\n")
    assert all(test in said for test in run.failed)


def test_what_is_asked_for_alone_and_is_not_here_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "found", lambda _: [HERE])
    monkeypatch.setattr(module, "ran_on", lambda _, **_how: [ran()])
    assert module.main(["--only", "3.13"]) == 0
    assert module.main(["--only", "3.12", "--only", "3.13"]) == 1
    assert capsys.readouterr().out.endswith(
        "Not all of 3.12, 3.13 are here: name one by --python COMMAND.\n"
    )
