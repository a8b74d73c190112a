from __future__ import annotations

import pytest

from tests.bench.arithmetic import Spread
from tests.bench.contenders import DIRECT, FASTAPI, SLUICE, SLUICE_OTHER, VLLM_ROUTER, Contender
from tests.bench.figure import Bench, Column, Figure
from tests.bench.report import (
    Setting,
    goal_section,
    page,
    section,
    significant,
    spread_text,
    table,
)
from tests.bench.results import Results


async def never(bench: Bench, contender: Contender) -> dict[str, float]:
    raise AssertionError((bench, contender))


FIGURE = Figure(
    name="requests",
    title="Requests",
    method="By hand.",
    columns=(
        Column("requests_per_s", "requests/s"),
        Column("cpu_us_per_request", "CPU us", digits=1, with_ratio=False),
    ),
    contenders=(DIRECT, VLLM_ROUTER, SLUICE),
    measure=never,
)
SETTING = Setting("today", "two cores", "0.00", 2, 3.0, {"wrk": "4.1"})


@pytest.fixture
def results() -> Results:
    filled = Results()
    for number, (mine, theirs) in enumerate([(2000.0, 1000.0), (1500.0, 1500.0)], start=1):
        filled.add(SLUICE, number, {"requests_per_s": mine, "cpu_us_per_request": 50.0})
        filled.add(VLLM_ROUTER, number, {"requests_per_s": theirs, "cpu_us_per_request": 100.0})
    return filled


def test_a_table_is_markdown() -> None:
    assert table(("a", "", ""), [("1", "2", "")]) == "| a | | |\n| --- | --- | --- |\n| 1 | 2 | |"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0003604, "0.000360"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (12345.6, "12,346"),
        (-4.567, "-4.57"),
        (0.0, "0"),
    ],
)
def test_three_figures_are_shown_and_no_whole_digit_is_lost(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_spread_shows_least_and_most_where_there_are_several() -> None:
    assert spread_text(Spread(2.0, 1.0, 4.0), digits=1) == "2.0 (1.0 to 4.0)"
    assert spread_text(Spread(2.0, 2.0, 2.0), digits=1) == "2.0"
    assert spread_text(Spread(2.0, 2.0, 2.0, missing=3), digits=1) == "2.0 (3 rounds without)"
    assert spread_text(None) == "not measured"


def test_a_section_has_a_row_for_everyone_and_the_ratio_of_the_rounds(results: Results) -> None:
    lines = section(FIGURE, results).splitlines()
    assert "| proxy | requests/s | x vllm-router | CPU us |" in lines
    assert f"| {SLUICE} | 1,750 (1,500 to 2,000) | 1.50 | 50.0 |" in lines
    assert f"| {DIRECT} | - | - | - |" in lines


def test_a_failure_is_told_with_its_reason(results: Results) -> None:
    results.failed("requests", DIRECT, "did not start")
    assert "direct: not measured in at least one round: did not start." in section(FIGURE, results)


def test_a_goal_that_was_missed_is_flagged_and_named_once_more(results: Results) -> None:
    for number in (1, 2):
        results.add(SLUICE, number, {"cpu_us_per_request": 90.0})
    text = goal_section([FIGURE], results)
    assert "| at least 1.2 x vllm-router | 1.50 (1.00 to 2.00) | reached | not measured |" in text
    assert "| at most 0.85 x vllm-router | 0.900 | MISSED | not measured |" in text
    assert text.endswith(
        "Falls short: CPU per request (at most 0.85 x vllm-router).\n\n"
        "Not measured: requests/s on one core (at least 40 x FastAPI + httpx)."
    )


def test_only_goals_of_figures_that_were_run_are_judged(results: Results) -> None:
    assert "stall" not in goal_section([FIGURE], results)


def test_the_page_says_where_how_and_with_what(results: Results) -> None:
    results.add(SLUICE_OTHER, 1, {"requests_per_s": 900.0})
    text = page([FIGURE], results, SETTING)
    for part in (
        "# Benchmarks",
        "make bench",
        "two cores",
        "| wrk | 4.1 |",
        "## Goals",
        "By hand.",
    ):
        assert part in text
    assert text.endswith("|\n")


def test_what_was_not_measured_is_not_called_missed() -> None:
    text = goal_section([FIGURE], Results())
    assert "Falls short" not in text
    assert "Not measured: requests/s on one core (at least 1.2 x vllm-router);" in text


def test_with_every_goal_reached_that_is_all_it_says(results: Results) -> None:
    for number in (1, 2):
        results.add(SLUICE, number, {"requests_per_s": 9000.0})
        results.add(FASTAPI, number, {"requests_per_s": 100.0})
    assert goal_section([FIGURE], results).endswith("\n\nEvery goal is reached.")
