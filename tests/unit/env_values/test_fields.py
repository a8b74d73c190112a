"""Declared fields: the bounds that are kept are those of the rule that is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from proxy.env_values import fields

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def accepts(kind: type, field: FieldInfo, value: float) -> bool:
    adapter: TypeAdapter[object] = TypeAdapter(Annotated[kind, field])
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def extra(field: FieldInfo) -> dict[str, object]:
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)


@pytest.mark.parametrize(
    ("field", "low", "high", "unit"),
    [
        (fields.whole("Places.", 0, 7, "places"), 0, 7, "places"),
        (fields.port("Port"), 0, 65_535, ""),
        (fields.seats("Seats."), 1, 1_000_000, "sequences"),
        (fields.tokens("Tokens."), 1, 1_000_000_000, "tokens"),
    ],
)
def test_a_whole_number_keeps_both_its_bounds_and_tells_them(
    field: FieldInfo, low: int, high: int, unit: str
) -> None:
    assert [accepts(int, field, value) for value in (low - 1, low, high, high + 1)] == [
        *(False, True, True, False)
    ]
    assert extra(field) == {"rule": f"a whole number from {low} to {high}", "unit": unit}


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (fields.share("Share."), [0, 0.2, 1], [-0.1, 1.1]),
        (fields.seconds("Time."), [0.001, 86_400], [0, -1, 86_401]),
        (fields.seconds_or_zero("Time."), [0, 86_400], [-0.1, 86_401]),
    ],
)
def test_a_number_keeps_its_bounds_and_is_finite(
    field: FieldInfo, good: list[float], bad: list[float]
) -> None:
    assert all(accepts(float, field, value) for value in good)
    assert not any(accepts(float, field, value) for value in [*bad, float("nan"), float("inf")])
    told = {float(number) for number in re.findall(r"\d+", str(extra(field)["rule"]))}
    assert max(told) == max(good)


def test_a_time_is_in_seconds() -> None:
    for field in (fields.seconds("Time."), fields.seconds_or_zero("Time.")):
        assert extra(field)["unit"] == "seconds"


def test_a_field_has_its_meaning_and_its_rule() -> None:
    field = fields.described("Colour of the lines.", "red or green", "colours")
    assert field.description == "Colour of the lines."
    assert extra(field) == {"rule": "red or green", "unit": "colours"}
    assert extra(fields.switch("Light."))["rule"] == "true or false"
    assert fields.port("Port of the door").description == "Port of the door; 0 = any free one."


@pytest.mark.parametrize(
    "kind", [int, float, int | None, Annotated[int, "any"] | Literal["auto"] | None]
)
def test_a_number_that_only_python_reads_is_told_the_rule(kind: object) -> None:
    field = fields.described("Places.", "a whole number")
    field.annotation = kind  # type: ignore[assignment]  # as a model sets it
    with pytest.raises(ValueError, match=r"^must be a whole number$"):
        fields.as_people_write_it(field, "1_0")
    for value in ("10", "auto", "1e3", 7, None):
        assert fields.as_people_write_it(field, value) == value


@pytest.mark.parametrize("kind", [str, bool, Literal["1_0"], tuple[tuple[str, float], ...]])
def test_what_is_no_number_may_look_like_one(kind: object) -> None:
    field = fields.described("Name.", "a name")
    field.annotation = kind  # type: ignore[assignment]  # as above
    assert fields.as_people_write_it(field, "1_0") == "1_0"
