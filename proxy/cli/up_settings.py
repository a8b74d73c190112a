"""What `sluice up` makes of an engine's arguments: its command, and the gateway's settings.

What a flag, the environment or a .env file sets is left as it is, and a warning says where that
does not fit the engine; only what nobody sets is derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import SecretStr

from proxy.cli.engine_command import shown
from proxy.config import given_fields, load_settings, variable_name
from proxy.env_values.names import PREFIX
from proxy.supervision.reserved_port import LOOPBACK
from proxy.vllm.serve_arguments import ServeArguments, flat_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.config import Settings

# vLLM's own on most cards. On the largest it takes 1024, more than a KV cache usually holds.
DEFAULT_MAX_NUM_SEQS = 256
_ENGINE_KEY = "VLLM_API_KEY"
_OWN_ENGINE = ("upstream_urls", "upstreams_file")


@dataclass(frozen=True, slots=True)
class Derived:
    """A setting that nobody gave. `why` says in a few words where it comes from."""

    field: str
    value: str
    why: str

    @property
    def shown(self) -> str:
        """Never a secret."""
        value = "***" if self.field == "upstream_api_key" else self.value
        return f"{variable_name(self.field)}={value}"


@dataclass(frozen=True, slots=True)
class UpPlan:
    """`command` starts the engine, `engines` of it behind one port; `engine_sequences` is the
    --max-num-seqs of each."""

    command: tuple[str, ...]
    settings: Settings
    engines: int
    engine_sequences: int
    derived: tuple[Derived, ...]
    warnings: tuple[str, ...]

    @property
    def command_line(self) -> str:
        return shown(self.command)


def read_arguments(words: tuple[str, ...]) -> ServeArguments:
    """Raises UsageError for what no gateway can stand in front of."""
    arguments = ServeArguments.of(words)
    file = arguments.value("config")
    if file:
        try:
            arguments = ServeArguments(arguments.words, flat_values(Path(file).read_text()))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise click.UsageError(f"--config {file}: cannot be read ({reason})") from None
    problems = arguments.problems()
    if problems:
        raise click.UsageError("\n".join(problems))
    return arguments


def plan_up(
    head: tuple[str, ...],
    arguments: ServeArguments,
    overrides: Mapping[str, object],
    port: int,
    environment: Mapping[str, str],
) -> UpPlan:
    """`head` is the program, `port` the engine's own. Raises SettingsError and UsageError."""
    given = given_fields(overrides)
    named = next((field for field in _OWN_ENGINE if field in given), None)
    if named is not None:
        raise click.UsageError(
            f"{variable_name(named)} names engines, and sluice up starts its own: unset it, or "
            f"use sluice serve"
        )
    try:
        said, ranks = arguments.number("max-num-seqs"), arguments.engines
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    derived = [one for one in _of_arguments(arguments, port) if one.field not in given]
    derived += _max_num_seqs(said, ranks, overrides, derived, given)
    settings = _loaded(overrides, derived)
    key = arguments.value("api-key") or environment.get(_ENGINE_KEY)
    if key and settings.client_keys and settings.upstream_api_key is None:
        why = "the engine's --api-key, once a client has shown a key of ours"
        derived.append(Derived("upstream_api_key", key, why))
        settings = _loaded(overrides, derived)
    each = said or -(-(settings.max_num_seqs or DEFAULT_MAX_NUM_SEQS) // ranks)
    return UpPlan(
        command=(*head, *arguments.at(port, each)),
        settings=settings,
        engines=ranks,
        engine_sequences=each,
        derived=tuple(derived),
        warnings=tuple(_warnings(arguments, settings, each * ranks)),
    )


def engine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Ours without our settings, some of which are secrets; a crash loses no last line."""
    kept = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
    return {"PYTHONUNBUFFERED": "1", **kept}


def _of_arguments(arguments: ServeArguments, port: int) -> Iterator[Derived]:
    yield Derived("upstream_urls", f"http://{LOOPBACK}:{port}", "the engine's own port")
    for option in ("host", "port"):
        value = arguments.value(option)
        if value:
            yield Derived(option, value, f"the engine's --{option}: clients go on asking there")
    yield Derived("max_kv_tokens", "auto", "a share of the KV cache that the engine reports")


def _max_num_seqs(
    said: int | None,
    ranks: int,
    overrides: Mapping[str, object],
    derived: list[Derived],
    given: frozenset[str],
) -> Iterator[Derived]:
    """Of all ranks together."""
    if "max_num_seqs" in given:
        return
    if said is not None:
        why = "the engine's --max-num-seqs" + (f" x {ranks} ranks" if ranks > 1 else "")
        yield Derived("max_num_seqs", str(said * ranks), why)
        return
    most, why = DEFAULT_MAX_NUM_SEQS * ranks, "nobody says it: the engine is started with so many"
    if "max_in_flight" in given:
        seats = _loaded(overrides, derived).max_in_flight
        most = max(most, seats + ranks)
    yield Derived("max_num_seqs", str(most), why)


def _loaded(overrides: Mapping[str, object], derived: list[Derived]) -> Settings:
    """Raises SettingsError."""
    values: dict[str, object] = {one.field: one.value for one in derived}
    if "upstream_api_key" in values:
        values["upstream_api_key"] = SecretStr(str(values["upstream_api_key"]))
    return load_settings({**values, **overrides})


def _warnings(arguments: ServeArguments, settings: Settings, sequences: int) -> Iterator[str]:
    """Where what is set does not fit what the engine is started with."""
    if settings.max_num_seqs not in (None, sequences):
        yield (
            f"SLUICE_MAX_NUM_SEQS={settings.max_num_seqs} is set, and the engine is started with "
            f"--max-num-seqs {sequences}"
        )
    if settings.max_in_flight >= sequences:
        yield (
            f"{settings.max_in_flight} seats are not below the engine's --max-num-seqs "
            f"{sequences}: requests will pile up in the engine's own queue"
        )
    for option, used in (("host", settings.host), ("port", str(settings.port))):
        value = arguments.value(option)
        if value and value != used:
            yield (
                f"--{option} {value} is not used: SLUICE_{option.upper()} is set to {used}, and "
                f"clients are served there"
            )
