"""How a field of the settings is declared: what it means, and the rule that a bad value is told.

`rule` ends the sentence "must be ...". proxy/config.py puts it into the line for a bad value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args, get_origin

from pydantic import Field

from proxy.env_values.plain_numbers import is_read_as_more

if TYPE_CHECKING:
    from pydantic.config import JsonDict
    from pydantic.fields import FieldInfo

DAY_S = 86_400
MOST_SEATS = 1_000_000
MOST_TOKENS = 1_000_000_000
MOST_WORKERS = 256
MOST_CONNECTIONS = 1_000_000


def described(meaning: str, rule: str, unit: str = "") -> FieldInfo:
    """A field whose rule is kept by its type or by a validator beside it."""
    extra: JsonDict = {"unit": unit, "rule": rule}
    field: FieldInfo = Field(description=meaning, json_schema_extra=extra)
    return field


def as_people_write_it(field: FieldInfo, value: object) -> object:
    """The value. Raises ValueError if it is a text that Python alone takes for a number."""
    if isinstance(value, str) and _is_number(field.annotation) and is_read_as_more(value):
        extra = field.json_schema_extra
        raise ValueError(f"must be {extra['rule'] if isinstance(extra, dict) else 'a number'}")
    return value


def _is_number(kind: object) -> bool:
    """Or may be one."""
    if kind in (int, float):
        return True
    return get_origin(kind) is not tuple and any(map(_is_number, get_args(kind)))


def whole(meaning: str, low: int, high: int, unit: str = "") -> FieldInfo:
    extra: JsonDict = {"unit": unit, "rule": f"a whole number from {low} to {high}"}
    field: FieldInfo = Field(description=meaning, json_schema_extra=extra, ge=low, le=high)
    return field


def switch(meaning: str) -> FieldInfo:
    return described(meaning, "true or false")


def port(meaning: str) -> FieldInfo:
    """0 stands for any free one."""
    return whole(f"{meaning}; 0 = any free one.", 0, 65_535)


def seats(meaning: str) -> FieldInfo:
    """At least one."""
    return whole(meaning, 1, MOST_SEATS, "sequences")


def tokens(meaning: str) -> FieldInfo:
    """At least one."""
    return whole(meaning, 1, MOST_TOKENS, "tokens")


def share(meaning: str) -> FieldInfo:
    """A number from 0 to 1."""
    extra: JsonDict = {"unit": "", "rule": "a number from 0 to 1"}
    field: FieldInfo = Field(
        description=meaning, json_schema_extra=extra, ge=0, le=1, allow_inf_nan=False
    )
    return field


def seconds(meaning: str) -> FieldInfo:
    """A time above 0."""
    extra: JsonDict = {
        "unit": "seconds",
        "rule": f"a number of seconds above 0, at most {DAY_S}",
    }
    field: FieldInfo = Field(
        description=meaning, json_schema_extra=extra, gt=0, le=DAY_S, allow_inf_nan=False
    )
    return field


def seconds_or_zero(meaning: str) -> FieldInfo:
    extra: JsonDict = {"unit": "seconds", "rule": f"a number of seconds from 0 to {DAY_S}"}
    field: FieldInfo = Field(
        description=meaning, json_schema_extra=extra, ge=0, le=DAY_S, allow_inf_nan=False
    )
    return field
