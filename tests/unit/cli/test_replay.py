"""`sluice replay` end to end, against a simulated engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from proxy.cli.beside import simulated_engine_beside
from proxy.cli.replay import command_line, replay
from proxy.replay.result import read_result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK = ("--duration", "1s", "--prompt-tokens", "50", "--output-tokens", "5")


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with simulated_engine_beside(8, quiet=True) as url:
        yield url


def test_a_made_up_load_leaves_a_result_a_page_and_json(engine: str, tmp_path: Path) -> None:
    output, page = tmp_path / "r.json", tmp_path / "r.html"
    files = ("--output", str(output), "--html", str(page))
    arguments = ["--rate", "20", *QUICK, "--slo-ttft", "30s", "--json", *files]
    ran = CliRunner().invoke(replay, [engine, *arguments])

    assert ran.exit_code in (0, 3), ran.output  # 3: a machine that has no time for us
    printed = json.loads(ran.stdout)
    assert printed["completed"] == printed["good"] == printed["offered"] > 5
    assert printed["run"]["generator"]["prompt_tokens_furthest_off"] == 0
    assert read_result(output).load_hash == printed["load"]["hash"]
    assert page.read_text().startswith("<!doctype html>")


def test_a_trace_is_played_and_shown_as_a_table(engine: str, tmp_path: Path) -> None:
    trace = tmp_path / "azure.csv"
    rows = [f"2023-11-16 18:00:0{second}.0000000,40,4" for second in range(6)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    ran = CliRunner().invoke(replay, [engine, str(trace), "--speed", "10", "--no-stream"])
    assert ran.exit_code in (0, 3), ran.output
    assert "completed 6" in ran.output


def test_a_recording_that_cannot_be_read_does_not_cost_the_page(
    engine: str, tmp_path: Path
) -> None:
    page, missing = tmp_path / "r.html", tmp_path / "none.csv"
    files = ("--html", str(page), "--recording", str(missing))
    ran = CliRunner().invoke(replay, [engine, "--rate", "20", *QUICK, *files])
    assert ran.exit_code == 2
    assert f"{missing}: No such file or directory; {page} is without it" in ran.stderr
    assert page.read_text().startswith("<!doctype html>")


def test_ctrl_c_ends_it_with_what_there_is(engine: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    options = ["--rate", "50", "--duration", "60s", "--output-tokens", "2", "--output", str(output)]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "proxy", "replay", engine, *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert read_result(output).run.partial


def test_one_that_is_told_to_ends_with_its_standard_input(engine: str, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    options = ["--rate", "50", "--duration", "60s", "--output-tokens", "2", "--output", str(output)]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "proxy", "replay", engine, "--exit-with-stdin", *options],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stderr is not None
    process.stderr.readline()
    _, said = process.communicate()  # closes its standard input
    assert process.returncode == 130, said
    assert read_result(output).run.partial


def test_a_trace_of_wide_requests_is_played_with_as_many_sequences(
    engine: str, tmp_path: Path
) -> None:
    trace = tmp_path / "sluice.jsonl"
    line = {
        "v": 2,
        "arrived_wall_s": 1000.0,
        "offset_s": 0.0,
        "route": "chat_completions",
        "outcome": "ok",
        "seats": 3,
        "prompt_tokens": 40,
        "output_tokens": 15,
    }
    trace.write_text("".join(json.dumps({**line, "offset_s": i / 10}) + "\n" for i in range(4)))
    ran = CliRunner().invoke(replay, [engine, str(trace), "--json"])
    assert ran.exit_code in (0, 3), ran.output
    told = json.loads(ran.stdout)
    assert told["completed"] == 4
    assert sum(told["series"]["output_tokens"]) == 4 * 15


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ([], 2, "name a trace file, or make a load up"),
        (["--rate", "1", "--arrivals", "poisson:1"], 2, "exclude each other"),
        (["none.csv", "--rate", "1"], 2, "--limit-rate thins a trace"),
        (["--rate", "9", "--output", "none/r.json"], 2, "error: none/r.json: No such file"),
        (["--rate", "9", "--html", "."], 2, "error: .: Is a directory"),
        (["--rate", "9", "--recording", "r.csv"], 2, "the report of --html FILE"),
        (["--arrivals", "waves:1"], 2, "arrivals are 'waves:1'"),
        (["--rate", "1", "--prompt-tokens", "x"], 2, "--prompt-tokens is 'x'"),
        (["--rate", "1", "--duration", "soon"], 2, "write 1.5, 250ms"),
        (["--rate", "1", "--abandon-after", "x"], 2, "--abandon-after"),
        (["--rate", "1", "--header", "secret"], 2, "write it as 'Name: value'"),
        (["--rate", "1", "--body", "[]"], 2, "must be a JSON object"),
        (["--rate", "0.001", "--duration", "1s"], 2, "no request arrives"),
        (["none.csv"], 2, "none.csv: No such file"),
        (["--rate", "9", "--duration", "1s"], 1, "GET http://127.0.0.1:1/v1/models"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_line(
    arguments: list[str], code: int, complaint: str
) -> None:
    ran = CliRunner().invoke(replay, ["http://127.0.0.1:1", *arguments])
    assert (ran.exit_code, complaint in ran.output) == (code, True), ran.output


def test_the_command_that_is_written_down_holds_no_secret() -> None:
    words = ["replay", "u", "--api-key", "k1", "--header=X: k2", "--rate", "2"]
    assert command_line(words) == "sluice replay u --api-key '***' '--header=***' --rate 2"
