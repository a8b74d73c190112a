"""CI judges a run by its report; these are the runs that must not pass."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.check_junit import main, read_allowed

ALLOWED_SKIPS = Path(__file__).parents[2] / ".ci" / "allowed-skips.txt"

Judge = Callable[..., int]

PASSED = '<testcase classname="tests.test_a" name="test_one"/>'
SKIPPED = '<testcase classname="tests.test_a" name="test_two"><skipped message="no"/></testcase>'
AS_MARKED = '<testcase classname="t" name="test_five"><skipped type="pytest.xfail"/></testcase>'
FAILED = '<testcase classname="tests.test_a" name="test_three"><failure/></testcase>'
BROKEN = '<testcase classname="tests.test_a" name="test_four"><error/></testcase>'


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def run(*cases: str, allowed: str = "") -> int:
        (tmp_path / "report.xml").write_text(
            f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
        )
        (tmp_path / "allowed.txt").write_text(allowed)
        return main(str(tmp_path / "report.xml"), str(tmp_path / "allowed.txt"))

    return run


def test_a_run_in_which_tests_passed_is_sound(
    judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(PASSED) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"


@pytest.mark.parametrize("cases", [(), (SKIPPED,)], ids=["empty", "all skipped"])
def test_a_run_without_a_test_is_not(judge: Judge, cases: tuple[str, ...]) -> None:
    assert judge(*cases, allowed="*  # all of them\n") == 1


@pytest.mark.parametrize("case", [FAILED, BROKEN], ids=["failure", "error"])
def test_a_failure_is_not_hidden_by_those_that_passed(judge: Judge, case: str) -> None:
    assert judge(PASSED, case) == 1


def test_a_skip_that_nobody_allowed_fails_and_is_named(
    judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(PASSED, SKIPPED) == 1
    assert "tests.test_a::test_two" in capsys.readouterr().out


def test_a_skip_may_be_allowed_with_a_reason(judge: Judge) -> None:
    allowed = "# none\n\ntests.test_a::test_t*  # needs a machine that CI has not\n"
    assert judge(PASSED, SKIPPED, allowed=allowed) == 0


def test_a_skip_is_not_allowed_without_a_reason(judge: Judge) -> None:
    with pytest.raises(ValueError, match="no reason"):
        judge(PASSED, SKIPPED, allowed="tests.test_a::test_two\n")


def test_the_list_of_allowed_skips_can_be_read() -> None:
    assert isinstance(read_allowed(ALLOWED_SKIPS), list)


def test_a_test_that_failed_as_it_is_marked_to_did_run(
    judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(PASSED, AS_MARKED) == 0
    assert capsys.readouterr().out == (
        "1 tests failed as they are marked to\n2 passed, 0 failed, 0 skipped\n"
    )


def test_pytest_is_strict_about_tests_that_are_marked_to_fail() -> None:
    settings = tomllib.loads((ALLOWED_SKIPS.parents[1] / "pyproject.toml").read_text())
    assert settings["tool"]["pytest"]["ini_options"]["xfail_strict"] is True
