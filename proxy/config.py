"""Loads the settings, and says in one line each what is wrong with them.

A flag beats the environment, which beats a `.env` file in the working directory; an empty value is
an unset one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from dotenv import dotenv_values
from pydantic import ValidationError

from proxy.env_values.names import PREFIX, is_service_link, unknown_name_problems
from proxy.env_values.urls import without_secrets
from proxy.settings import ENV_FILE, Settings, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

__all__ = [
    "SECRETS",
    "SettingRow",
    "Settings",
    "SettingsError",
    "given_fields",
    "load_settings",
    "problem_lines",
    "setting_default",
    "settings_table",
    "variable_name",
]

_NO_OVERRIDES: Mapping[str, object] = MappingProxyType({})
SECRETS = frozenset({"admin_token", "upstream_api_key", "api_keys", "redis_url"})
_LONGEST_SHOWN_VALUE = 100
_LONGEST_RULE = 400


class SettingsError(Exception):
    """The settings cannot be used. `problems` has one line for each fault, without secrets."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as people read it. `value` is masked when it is a secret."""

    variable: str
    value: str
    source: Source
    default: str
    unit: str
    meaning: str


def variable_name(field: str) -> str:
    """`max_in_flight` -> `SLUICE_MAX_IN_FLIGHT`."""
    return PREFIX + field.upper()


def setting_default(field: str) -> str:
    """The default as people read it; "" when there is none, or when it is derived."""
    info = Settings.model_fields[field]
    return "" if info.default_factory else _shown(info.default)


def load_settings(overrides: Mapping[str, object] = _NO_OVERRIDES) -> Settings:
    """The effective settings. `overrides` are flags by field name; None and "" are not given.

    Raises SettingsError with everything that is wrong.
    """
    flags = {field: value for field, value in overrides.items() if value not in (None, "")}
    if strangers := flags.keys() - Settings.model_fields.keys():
        raise TypeError(f"no such settings: {', '.join(sorted(strangers))}")
    dotenv = _dotenv()
    problems = _environment_problems(dotenv)
    try:
        settings = Settings(**flags)  # type: ignore[arg-type]  # pydantic judges the values
    except ValidationError as error:
        raise SettingsError(problems + problem_lines(error)) from None
    if problems:
        raise SettingsError(problems)
    return settings.remember_sources(_sources(flags, dotenv))


def given_fields(overrides: Mapping[str, object] = _NO_OVERRIDES) -> frozenset[str]:
    """The fields that a flag, the environment or the `.env` file gives a value, good or bad."""
    flags = {field: value for field, value in overrides.items() if value not in (None, "")}
    return frozenset(_sources(flags, _dotenv()))


def settings_table(settings: Settings) -> list[SettingRow]:
    """Every setting in the order of docs/settings.md, secrets masked."""
    return [
        SettingRow(
            variable=variable_name(field),
            value=_masked(field, getattr(settings, field)),
            source=settings.source_of(field),
            default=setting_default(field),
            unit=_extra(info, "unit"),
            meaning=info.description or "",
        )
        for field, info in Settings.model_fields.items()
    ]


def _dotenv() -> dict[str, str | None]:
    try:
        return dotenv_values(ENV_FILE)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError([f"{ENV_FILE}: cannot be read ({reason})"]) from None


def _environment_problems(dotenv: Mapping[str, str | None]) -> list[str]:
    known = [variable_name(field) for field in Settings.model_fields]
    problems = unknown_name_problems(os.environ, known)
    problems += [f"{line} (in {ENV_FILE})" for line in unknown_name_problems(dotenv, known)]
    web_concurrency = os.environ.get("WEB_CONCURRENCY", "").strip()
    if web_concurrency.isdecimal() and web_concurrency.lstrip("0") not in {"", "1"}:
        problems.append(
            f"WEB_CONCURRENCY={_one_line(web_concurrency)}: must be 1 or unset; processes are "
            "counted by SLUICE_WORKERS, and more than one need SLUICE_REDIS_URL to hold one limit"
        )
    return problems


def problem_lines(error: ValidationError) -> list[str]:
    """One for each fault, without secrets."""
    lines = [
        line
        for details in error.errors(include_url=False)
        # The default of another field is made from the faulty one; one line is enough.
        if details["type"] != "default_factory_not_called"
        for line in _problem(details).splitlines()
    ]
    # A field that may be of several types complains once for each of them.
    return list(dict.fromkeys(lines))


def _problem(details: ErrorDetails) -> str:
    own_words = str(details["ctx"]["error"]) if details["type"] == "value_error" else ""
    own_words = "\n".join(_at_most(line, _LONGEST_RULE) for line in own_words.splitlines())
    if not details["loc"]:
        return own_words
    field = str(details["loc"][0])
    shown = "" if field in SECRETS else f"={_one_line(details['input'])}"
    rule = own_words or f"must be {_extra(Settings.model_fields[field], 'rule')}"
    return f"{variable_name(field)}{shown}: {rule}"


def _one_line(value: object) -> str:
    text = without_secrets(str(value))
    return _at_most(text if text.isprintable() else repr(text), _LONGEST_SHOWN_VALUE)


def _at_most(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _sources(flags: Mapping[str, object], dotenv: Mapping[str, str | None]) -> dict[str, Source]:
    """The last one that gives a field a value wins, as the settings themselves do it."""
    environment = {
        name.upper()
        for name, value in os.environ.items()
        if value and not is_service_link(name.upper(), value)
    }
    in_file = {name.upper() for name, value in dotenv.items() if value}
    sources: dict[str, Source] = {}
    for field in Settings.model_fields:
        if field in flags:
            sources[field] = "flag"
        elif variable_name(field) in environment:
            sources[field] = "env"
        elif variable_name(field) in in_file:
            sources[field] = ".env"
    return sources


def _extra(info: FieldInfo, key: str) -> str:
    extra = info.json_schema_extra
    return str(extra.get(key, "")) if isinstance(extra, dict) else ""


def _masked(field: str, value: object) -> str:
    return "***" if field in SECRETS and value is not None else _shown(value)


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(map(_shown_item, value))
        case _:
            return str(value)


def _shown_item(item: object) -> str:
    """One of several, as it is written in its variable."""
    match item:
        case (str() as name, float() as weight):
            return f"{name}:{_shown(weight)}"
        case (str() as method, str() as path):
            return f"{method} {path}"
        case _:
            return str(item)
