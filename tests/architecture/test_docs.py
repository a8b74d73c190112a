"""docs/settings.md and docs/errors.md say what the code does: nothing missing, nothing made up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.admission.outcome import Load, Reason, RefusalFacts
from proxy.admission.retry_after import RetryAfter
from proxy.config import setting_default, variable_name
from proxy.edge import error_table
from proxy.edge.connection_cap import Bound, ConnectionCap
from proxy.env_values.names import unknown_name_problems
from proxy.openai_api.errors import ErrorCode, ErrorType
from proxy.settings import Settings
from proxy.upstream.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.edge.answers import OwnAnswer

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS_PAGE = (DOCS / "settings.md").read_text()
ERRORS_PAGE = (DOCS / "errors.md").read_text()

SETTING_ROW = re.compile(r"^\| `(SLUICE_\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
ERROR_ROW = re.compile(r"^\| `(\w+)` \| ([\d or]+) \| ([^|]*) \|", re.MULTILINE)

SETTING_ROWS = {
    name: (default, range_) for name, default, range_, _ in SETTING_ROW.findall(SETTINGS_PAGE)
}
ERROR_ROWS = {code: (status, types) for code, status, types in ERROR_ROW.findall(ERRORS_PAGE)}

CODES = (
    {code.value for code in ErrorCode}
    | {reason.value for reason in Reason}
    | {kind.code for kind in UpstreamError.__subclasses__()}
)


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_setting_has_a_row_and_every_row_is_a_setting() -> None:
    assert set(SETTING_ROWS) == {variable_name(field) for field in Settings.model_fields}


def test_no_setting_has_two_rows() -> None:
    names = [row[0] for row in SETTING_ROW.findall(SETTINGS_PAGE)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("field", Settings.model_fields)
def test_the_default_in_its_row_is_the_default(field: str) -> None:
    default = SETTING_ROWS[variable_name(field)][0].strip()
    if Settings.model_fields[field].default_factory is None:
        assert default == (f"`{setting_default(field)}`" if setting_default(field) else "")
    else:
        assert default


@pytest.mark.parametrize("field", Settings.model_fields)
def test_the_range_in_its_row_is_the_range(field: str) -> None:
    """Every number of the rule that a bad value is told."""
    extra = Settings.model_fields[field].json_schema_extra
    assert isinstance(extra, dict)
    for number in re.findall(r"\d+", str(extra["rule"])):
        assert re.search(rf"\b{number}\b", SETTING_ROWS[variable_name(field)][1])


def test_every_name_on_the_page_is_known() -> None:
    known = [variable_name(field) for field in Settings.model_fields]
    example = {"SLUICE_PROT", "SLUICE_SERVICE_HOST"}
    names = set(re.findall(r"SLUICE_[A-Z_]*[A-Z]", SETTINGS_PAGE + ERRORS_PAGE)) - example
    assert unknown_name_problems(dict.fromkeys(names, "1"), known) == []


def test_every_code_has_a_row_and_every_row_is_a_code() -> None:
    assert set(ERROR_ROWS) == CODES


@pytest.mark.parametrize("code", sorted(CODES))
def test_types_in_the_rows_are_types_that_exist(code: str) -> None:
    types = quoted(ERROR_ROWS[code][1])
    assert types
    assert set(types) <= {type_.value for type_ in ErrorType}


def test_every_type_occurs() -> None:
    found = {name for _, types in ERROR_ROWS.values() for name in quoted(types)}
    assert found == {type_.value for type_ in ErrorType}


def own_answers() -> list[OwnAnswer]:
    """One of each kind that the gateway makes, with either overload status."""
    later = RetryAfter(seconds=2, milliseconds=1500)
    facts = [RefusalFacts(reason, 1, Load(2, 2, 4, 4), 0.0, 1.0) for reason in Reason]
    refusals = [
        answer
        for status in (503, 429)
        for answer in (
            *(error_table.refused(each, status, later, lambda: "down") for each in facts),
            error_table.intake_full(1, status, later, may_retry=True),
            error_table.open_full(1, False, status, later, may_retry=True),
        )
    ]
    failures = [error_table.upstream_failed(kind("x")) for kind in UpstreamError.__subclasses__()]
    return [
        *refusals,
        *failures,
        error_table.drain_ended(later, may_retry=True),
        error_table.DRAIN_ENDED,
        error_table.INVALID_API_KEY,
        error_table.UNKNOWN_PATH,
        error_table.INTERNAL_ERROR,
        error_table.method_not_allowed("PUT", ("GET",)),
        error_table.body_too_large(1),
        error_table.body_timeout(1.0, 0),
        error_table.bad_request("x"),
        error_table.too_many_sequences(2, 1),
        error_table.context_length_exceeded(2, 1),
        *(error_table.too_many_connections(bound, ConnectionCap(1, 1), later) for bound in Bound),
    ]


@pytest.mark.parametrize(
    "answer", own_answers(), ids=lambda answer: f"{answer.code}-{answer.status}"
)
def test_an_answer_is_what_its_row_says(answer: OwnAnswer) -> None:
    status, types = ERROR_ROWS[answer.code]
    assert str(answer.status) in status.split(" or ")
    assert answer.type in quoted(types)


def test_every_code_has_an_answer() -> None:
    assert {answer.code for answer in own_answers()} == CODES
