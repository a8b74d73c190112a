"""Options for the replays of a tuning are read as the replay reads them, before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.cli.tune_load import load_duration_s

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = "http://engine:8000"


@pytest.mark.parametrize(
    ("options", "duration_s"),
    [(["--rate", "10"], 60.0), (["--rate=10", "--duration=2m", "--slo-ttft", "2"], 120.0)],
)
def test_the_length_of_a_made_up_load_is_known(options: list[str], duration_s: float) -> None:
    assert load_duration_s(ENGINE, options) == duration_s


def test_the_length_of_a_trace_is_known(tmp_path: Path) -> None:
    trace = tmp_path / "a.csv"
    rows = [f"2023-11-16 18:00:0{second}.0000000,40,4" for second in range(5)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    assert load_duration_s(ENGINE, [str(trace), "--speed", "5"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        (ENGINE, [], "name a trace file, or make a load up"),
        (ENGINE, ["--rates", "3"], "No such option"),
        (ENGINE, ["--rate", "many"], "'many' is not a valid float"),
        (ENGINE, ["--rate", "3", "--duration", "soon"], "write 1.5, 250ms"),
        (ENGINE, ["--rate", "3", "--prompt-tokens", "x"], "--prompt-tokens is 'x'"),
        (ENGINE, ["none.csv"], "none.csv: No such file"),
        (ENGINE, ["--rate", "3", "--output", "r.json"], "--output is of a single replay"),
        (ENGINE, ["--rate", "3", "--html", "r.html"], "--html is of a single replay"),
        ("engine:8000", ["--rate", "3"], "must start with http"),
    ],
)
def test_a_slip_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], url: str, options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_duration_s(url, options)
    printed = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in printed
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
