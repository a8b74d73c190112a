"""The load that the command line asks for, before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli.replay_plan import plan_of, schedule_of
from tests.support.replay_told import told

if TYPE_CHECKING:
    from pathlib import Path


def _trace(path: Path) -> Path:
    file = path / "b.csv"
    rows = [f"{second},m,{100 + second},7,0,API log" for second in range(100)]
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    file.write_text("\n".join([head, *rows, ""]))
    return file


def test_a_part_of_a_trace_at_another_speed(tmp_path: Path) -> None:
    heard = told("--from", "10s", "--speed", "2", "--duration", "5s")
    source, schedule = schedule_of(_trace(tmp_path), heard)
    assert source == "burstgpt trace b.csv"
    assert [a.at_s for a in schedule.arrivals] == [i / 2 for i in range(10)]
    assert schedule.arrivals[0].prompt_tokens == 110


def test_a_made_up_load_with_the_lengths_of_a_trace(tmp_path: Path) -> None:
    heard = told("--rate", "50", "--duration", "2s", "--lengths", str(_trace(tmp_path)))
    source, schedule = schedule_of(None, heard)
    assert source == "poisson:50, lengths of b.csv"
    assert {a.output_tokens for a in schedule.arrivals} == {7}
    assert schedule == schedule_of(None, heard)[1]


def test_a_limit_of_the_rate_thins_it() -> None:
    heard = told("--arrivals", "constant:100", "--duration", "10s", "--limit-rate", "10")
    assert len(schedule_of(None, heard)[1].arrivals) == pytest.approx(100, abs=30)


@pytest.mark.parametrize(
    ("url", "arguments", "said"),
    [
        ("gw:8080", ["--rate", "1"], "must start with http"),
        ("http://gw", ["--rate", "1", "--abandon-after", "x"], "--abandon-after is 'x'"),
        ("http://gw", [], "name a trace file, or make a load up"),
    ],
)
def test_a_plan_of_bad_options_is_refused(url: str, arguments: list[str], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        plan_of(url, None, told(*arguments))


def test_a_plan_says_whom_to_ask_when_and_what() -> None:
    plan = plan_of("http://gw:8080", None, told("--arrivals", "constant:10", "--duration", "2s"))
    assert plan.asking.address.authority == b"gw:8080"
    assert plan.source.startswith("constant:10, prompts")
    assert (plan.schedule.duration_s, len(plan.schedule.arrivals)) == (
        2.0,
        pytest.approx(20, abs=1),
    )
