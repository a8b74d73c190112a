"""`sluice check`: what is in force, what the engines can, and which limit binds first."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.cli.engine_addresses import engine_addresses
from proxy.cli.settings_options import COMMON_SETTINGS, settings_options
from proxy.cli.soundness import Machine, Verdict, judge, limits_of, model_length
from proxy.config import SECRETS, Settings, SettingsError, load_settings, settings_table
from proxy.discovery.resolver import SystemResolver
from proxy.vllm.inspection import EngineReport, inspect_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSOUND = 1
_BAD_SETTINGS = 2
_CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")


@click.command()
@settings_options(*COMMON_SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.pass_context
def check(ctx: click.Context, as_json: bool, overrides: Mapping[str, object]) -> None:
    """Print every effective setting, ask the engines what they can, and judge whether they fit.

    Says which limit binds first as load rises, seats or the KV cache, and why. Nothing is sent to
    an engine but GET /health, /version, /v1/models and /metrics.

    \b
    Exit code: 0 sound, 2 bad settings,
    1 unsound (an engine does not answer, say).

    \b
    Examples:
      SLUICE_MAX_NUM_SEQS=256 sluice check
      sluice check --upstream-urls http://gpu-host:8000 --max-num-seqs 64
      sluice check --upstream-urls http://gpu-1:8000,http://gpu-2:8000 --max-num-seqs 64
      sluice check --json | jq .binding_limit
    """
    try:
        settings = load_settings(overrides)
    except SettingsError as error:
        if not as_json:
            raise
        click.echo(json.dumps(_refused(error), indent=2))
        ctx.exit(_BAD_SETTINGS)
    engines = asyncio.run(_ask(settings))
    verdict = judge(settings, engines, this_machine())
    if as_json:
        click.echo(json.dumps(as_object(settings, engines, verdict), indent=2))
    else:
        _print(settings, engines, verdict)
    ctx.exit(0 if verdict.sound else _UNSOUND)


async def _ask(settings: Settings) -> dict[str, EngineReport]:
    """All at once."""
    key = settings.upstream_api_key.get_secret_value() if settings.upstream_api_key else None
    engines = await engine_addresses(settings, SystemResolver())
    reports = await asyncio.gather(
        *(inspect_engine(engine.url, key, ip=engine.ip) for engine in engines.values())
    )
    return dict(zip(engines, reports, strict=True))


def this_machine() -> Machine:
    """The hard limit of open files, up to which `sluice serve` raises its own; and the memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    container = _container_memory()
    return Machine(
        max_open_files=None if hard == resource.RLIM_INFINITY else hard,
        memory_bytes=memory if container is None else min(memory, container),
    )


def _container_memory() -> int | None:
    try:
        return int(_CONTAINER_MEMORY.read_text())
    except (OSError, ValueError):  # no such control group, or "max"
        return None


# For scripts -------------------------------------------------------------------------------------


def as_object(
    settings: Settings, engines: Mapping[str, EngineReport], verdict: Verdict
) -> dict[str, Any]:
    """The object of `--json`, as docs/settings.md describes it."""
    values = settings.model_dump(mode="json", exclude=set(SECRETS))
    masked = {row.variable: row.value or None for row in settings_table(settings)}
    return {
        "sound": verdict.sound,
        "problems": list(verdict.problems),
        "warnings": list(verdict.warnings),
        "settings": {
            row.variable: {
                "value": values.get(field, masked[row.variable]),
                "source": row.source,
            }
            for field, row in zip(Settings.model_fields, settings_table(settings), strict=True)
        },
        "engines": [
            {
                **_engine_object(settings, url, engine),
                "binding_limit": asdict(verdict.binding_limits[url]),
            }
            for url, engine in engines.items()
        ],
        "binding_limit": asdict(verdict.binding_limit) if verdict.binding_limit else None,
    }


def _engine_object(settings: Settings, url: str, engine: EngineReport) -> dict[str, Any]:
    return {
        "url": url,
        "up": engine.up,
        "reason": engine.reason,
        "version": engine.version,
        "model": engine.models[0].id if engine.models else None,
        "max_model_len": model_length(engine),
        "kv_cache_tokens": engine.kv_cache_tokens,
        "max_concurrency": limits_of(settings, engine).full_length_requests,
    }


def _refused(error: SettingsError) -> dict[str, Any]:
    return {
        "sound": False,
        "problems": list(error.problems),
        "warnings": [],
        "settings": {},
        "engines": [],
        "binding_limit": None,
    }


# For people: the verdict stands last, next to the prompt -----------------------------------------


def _print(settings: Settings, engines: Mapping[str, EngineReport], verdict: Verdict) -> None:
    console = Console(highlight=False)
    console.print(_settings_table(settings))
    console.print()
    console.print(_findings_table(settings, engines, verdict))
    console.print()
    warnings = len(verdict.warnings)
    noted = f", {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
    console.print(Text(("sound" if verdict.sound else "NOT sound") + noted, style="bold"))


def _settings_table(settings: Settings) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", no_wrap=True)
    for row in settings_table(settings):
        style = "dim" if row.source == "default" else ""
        value = f"{row.value} {row.unit}" if row.value and row.unit else row.value or "-"
        table.add_row(Text(row.variable), Text(value), row.source, style=style)
    return table


def _findings_table(
    settings: Settings, engines: Mapping[str, EngineReport], verdict: Verdict
) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for url, engine in engines.items():
        for name, value in _engine_lines(settings, url, engine):
            table.add_row(name, Text(value))
        limit = verdict.binding_limits[url]
        table.add_row("binds first", Text.assemble((limit.which, "bold"), f": {limit.why}"))
    for warning in verdict.warnings:
        table.add_row(Text("warning", "yellow"), Text(warning))
    for problem in verdict.problems:
        table.add_row(Text("problem", "bold red"), Text(problem))
    return table


def _engine_lines(settings: Settings, url: str, engine: EngineReport) -> list[tuple[str, str]]:
    state = "up" if engine.up else "NOT up"
    lines = [("engine", f"{url}: {state} ({engine.reason})")]
    if engine.up:
        length, full = model_length(engine), limits_of(settings, engine).full_length_requests
        lines += [
            ("version", engine.version or "not told"),
            ("models", ", ".join(model.id for model in engine.models) or "not told"),
            ("model length", f"{length:,} tokens" if length else "not told"),
            ("KV cache", _kv_cache(engine.kv_cache_tokens, full)),
        ]
    return lines


def _kv_cache(tokens: int | None, full_length: float | None) -> str:
    if tokens is None:
        return "not told"
    if full_length is None:
        return f"{tokens:,} tokens"
    return f"{tokens:,} tokens, {full_length:,.1f} requests of full length"
