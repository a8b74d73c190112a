"""Flags for settings, made from the settings themselves."""

from __future__ import annotations

import functools
import typing
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.plain_types import NUMBER, WHOLE
from proxy.config import SECRETS, setting_default, variable_name
from proxy.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

COMMON_SETTINGS = (
    "upstream_urls",
    "upstreams_file",
    "upstream_client",
    "affinity",
    "host",
    "port",
    "admin_host",
    "admin_port",
    "max_num_seqs",
    "headroom",
    "max_in_flight",
    "max_queue_depth",
    "queue_timeout",
    "max_prefill_tokens",
    "max_kv_tokens",
    "adaptive",
    "tenant_max_in_flight",
    "drain_timeout",
    "shadow",
    "trace_file",
    "log_level",
    "log_format",
)
"""Those that are flags, of `sluice serve` and of `sluice check`: what is tried with the one can be
handed to the other."""

_TYPES: dict[object, click.ParamType[Any]] = {int: WHOLE, float: NUMBER}


def settings_options(*fields: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a flag for each named field of Settings, `--max-in-flight` for `max_in_flight`.

    The decorated command gets the flags that were given as a dict by field name, `overrides`,
    which load_settings() takes. Raises ValueError for a secret: a flag shows in the process list.
    """
    options = [_option(field) for field in fields]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_overrides(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes anything on
            flags = {field: kwargs.pop(field) for field in fields}
            given = {field: value for field, value in flags.items() if value is not None}
            return command(*args, overrides=given, **kwargs)

        decorated: Callable[..., Any] = with_overrides
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _option(field: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    info = Settings.model_fields[field]
    kinds = typing.get_args(info.annotation) or (info.annotation,)
    if field in SECRETS:
        raise ValueError(f"{field} is a secret, and a flag shows in the process list")
    flag = "--" + field.replace("_", "-")
    default = setting_default(field)
    also = f"; default {default}" if default else ""
    text = f"{info.description} [{variable_name(field)}{also}]"
    if bool in kinds:
        return click.option(f"{flag}/--no-{flag[2:]}", field, default=None, help=text)
    return click.option(flag, field, type=_type(kinds), metavar=_metavar(field), help=text)


def _type(kinds: tuple[object, ...]) -> click.ParamType[Any]:
    if all(isinstance(kind, str) for kind in kinds):
        return click.Choice([str(kind) for kind in kinds], case_sensitive=False)
    others = [kind for kind in kinds if kind is not type(None)]
    # What may be a number or a word is text here, and judged with the rest of the settings.
    return _TYPES.get(others[0], click.STRING) if len(others) == 1 else click.STRING


def _metavar(field: str) -> str | None:
    extra = Settings.model_fields[field].json_schema_extra
    unit = extra.get("unit") if isinstance(extra, dict) else None
    return str(unit).upper() if unit else None
