"""`sluice demo` runs end to end: two engines, a gateway, clients, and a table."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from proxy.cli.demo import demo


@pytest.mark.timeout(60)
def test_it_compares_the_same_requests_in_front_of_both() -> None:
    arguments = ["--seconds", "2", "--rate", "20", "--timeout", "2", "--retries", "0", "--json"]
    result = CliRunner().invoke(demo, arguments)

    assert result.exit_code == 0, result.output
    summaries = json.loads(result.stdout)
    assert set(summaries) == {"engine alone", "engine behind Sluice"}
    alone, behind = summaries.values()
    assert alone["offered"] == behind["offered"] > 20
    assert alone["refused_tries"] == 0
    assert behind["refused_tries"] > 0
    assert behind["good"] > 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "0"),
        ("--rate", "-1"),
        ("--rate", "inf"),
        ("--seconds", "0"),
        ("--timeout", "0"),
        ("--retries", "-1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_starts(
    option: str, value: str
) -> None:
    result = CliRunner().invoke(demo, [option, value])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


@pytest.mark.timeout(60)
def test_a_person_gets_a_table() -> None:
    result = CliRunner().invoke(demo, ["--seconds", "1", "--rate", "5", "--retries", "0"])

    assert result.exit_code == 0, result.output
    assert "good answers per second" in result.stdout
    assert "engine behind Sluice" in result.stdout
