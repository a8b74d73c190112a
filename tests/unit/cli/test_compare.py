"""`sluice compare`: tables and JSON, exit codes, and lines instead of tracebacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from proxy.cli.compare import compare
from proxy.replay.result import write_result
from tests.support.replay_records import RUN, made_up_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.replay.result import ReplayResult

    Compare = Callable[..., Result]


@pytest.fixture
def run_compare(tmp_path: Path) -> Compare:
    def run(a: ReplayResult, b: ReplayResult, *options: str, columns: str = "160") -> Result:
        paths = [tmp_path / "a.json", tmp_path / "b.json"]
        for path, result in zip(paths, (a, b), strict=True):
            write_result(result, path)
        environment = {"COLUMNS": columns}
        return CliRunner(env=environment).invoke(compare, [*map(str, paths), *options])

    return run


SAME = made_up_run(seed=1)
SHEDS_MORE = made_up_run(seed=2, served=0.7)


def test_a_table_and_a_verdict_are_printed(run_compare: Compare) -> None:
    result = run_compare(SAME, SHEDS_MORE)
    assert result.exit_code == 0, result.output
    assert "goodput, requests/s" in result.output
    assert "Goodput is -" in result.output
    assert "worse" in result.output


def test_a_narrow_terminal_has_the_intervals_of_the_changes_only(run_compare: Compare) -> None:
    wide = run_compare(SAME, SHEDS_MORE).output
    narrow = run_compare(SAME, SHEDS_MORE, columns="80").output
    assert "[low, high]: 95 % intervals" in wide
    assert wide.count("[") > narrow.count("[") > 10
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow


def test_what_neither_run_had_is_no_row(run_compare: Compare) -> None:
    output = run_compare(SAME, SHEDS_MORE).output
    assert "shed for good" in output
    assert "abandoned" not in output


def test_json_has_all_figures_with_their_intervals(run_compare: Compare) -> None:
    result = run_compare(SAME, SHEDS_MORE, "--json")
    told = json.loads(result.stdout)
    assert told["verdict"] == "worse"
    goodput = told["metrics"]["goodput_per_s"]
    assert goodput["change"]["low"] < goodput["change"]["value"] < goodput["change"]["high"] < 0
    assert goodput["judgement"] == "worse"


def test_very_short_runs_are_called_too_short_whatever_seems_to_differ(
    run_compare: Compare,
) -> None:
    short = made_up_run(seed=1, duration_s=5.0), made_up_run(seed=2, duration_s=5.0, ttft_s=0.8)
    told = json.loads(run_compare(*short, "--json").stdout)
    assert told["verdict"] == "run_too_short"
    assert told["metrics"]["ttft_s.p50"]["judgement"] == "worse"


def test_runs_of_different_loads_are_refused_and_the_part_named(run_compare: Compare) -> None:
    result = run_compare(SAME, made_up_run(seed=1, rate_per_s=20.0))
    assert result.exit_code == 3
    assert "rate_per_s: 10.0 in A, 20.0 in B" in result.stderr
    assert result.stdout == ""


def test_a_script_is_told_in_json_what_differs(run_compare: Compare) -> None:
    result = run_compare(SAME, made_up_run(seed=1, rate_per_s=20.0), "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["verdict"] == "different_loads"
    assert any("rate_per_s" in line for line in told["differences"])


@pytest.mark.parametrize(
    ("b", "exit_code"), [(SHEDS_MORE, 1), (made_up_run(seed=3), 0)], ids=["worse", "noise"]
)
def test_a_script_can_ask_for_an_exit_code(
    run_compare: Compare, b: ReplayResult, exit_code: int
) -> None:
    assert run_compare(SAME, b, "--fail-when-worse").exit_code == exit_code


def test_recordings_are_read_with_them(run_compare: Compare, tmp_path: Path) -> None:
    header = "timestamp, memory.used [MiB], unix_time_s, engine.kv_cache_usage\n"
    rows = [f"[N/A], [N/A], {RUN.started_unix_s + i}, 0.99\n" for i in range(12)]
    recording = tmp_path / "memory.csv"
    recording.write_text(header + "".join(rows))
    options = ["--recordings", str(recording), str(recording), "--json"]
    told = json.loads(run_compare(SAME, SAME, *options).stdout)
    assert [reading["code"] for reading in told["readings"]] == [
        "within_noise",
        "on_the_edge",
        "on_the_edge",
    ]


def test_a_file_that_is_no_recording_is_said_to_be_none(
    run_compare: Compare, tmp_path: Path
) -> None:
    options = ["--recordings", *[str(tmp_path / "a.json")] * 2]  # the result in place of it
    result = run_compare(SAME, SAME, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'a.json'}: no recording: it has no rows")
    assert result.stderr.count("\n") == 1


def test_a_file_that_cannot_be_read_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    result = CliRunner().invoke(compare, [str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'a.json'}: not whole JSON")
    assert result.stderr.count("\n") == 1
