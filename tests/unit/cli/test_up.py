"""The command itself: what it takes, and what it refuses before anything is started."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from proxy.cli import up_run
from proxy.cli.main import sluice

if TYPE_CHECKING:
    from click.testing import Result

    from proxy.cli.up_run import UpOptions

pytestmark = pytest.mark.usefixtures("clean_environment")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, ["up", *arguments])


Given = tuple[tuple[str, ...], dict[str, object], "UpOptions"]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Given]:
    """What would be done; it would end with exit code 3."""
    calls: list[Given] = []

    def answer(*call: object) -> int:
        calls.append(call)  # type: ignore[arg-type]  # as the command calls it
        return 3

    monkeypatch.setattr(up_run, "answer", answer)
    return calls


@pytest.mark.parametrize("between", [["--"], []], ids=["marked", "unmarked"])
def test_what_stands_behind_the_model_is_the_engines(
    between: list[str], given: list[Given]
) -> None:
    result = invoke("--port", "80", "--shadow", *between, "m", "--port", "81")
    assert result.exit_code == 3
    ((words, overrides, _),) = given
    assert words == ("m", "--port", "81")
    assert overrides == {"port": 80, "shadow": True}


def test_its_own_options_arrive(given: list[Given]) -> None:
    invoke("--command", "x y", "--engine-port", "9", "--give-up-after", "2", "--", "m")
    ((_, _, options),) = given
    assert (options.written, options.engine_port, options.give_up_after) == ("x y", 9, 2)
    assert options.first_delay == 1.0


@pytest.mark.parametrize(
    "arguments",
    [("--json", "--", "m"), ("--give-up-after", "0"), ("--upstream-urls", "http://a", "--", "m")],
)
def test_options_that_make_no_sense_here_are_refused(
    arguments: tuple[str, ...], given: list[Given]
) -> None:
    assert invoke(*arguments).exit_code == 2
    assert given == []


def test_a_dry_run_starts_nothing_and_says_what_it_would() -> None:
    result = invoke("--dry-run", "--json", "--command", "true", "--", "m", "--max-num-seqs", "64")
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert told["command"].startswith("true m --max-num-seqs 64 --host 127.0.0.1 --port ")
    assert told["environment"]["SLUICE_MAX_NUM_SEQS"] == "64"
    assert told["seats"] == 57


def test_bad_settings_are_lines_and_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_QUEUE_TIMEOUT", "soon")
    result = invoke("--dry-run", "--command", "true", "--", "m")
    assert result.exit_code == 2
    assert "SLUICE_QUEUE_TIMEOUT=soon" in result.stderr
