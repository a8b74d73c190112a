#!/usr/bin/env python3
"""Writes docs/cli.md from the commands themselves; tests/architecture holds the page against them.

.venv/bin/python scripts/write_cli_reference.py
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.cli.main import sluice
from proxy.cli.settings_options import COMMON_SETTINGS
from proxy.config import variable_name

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

_HEAD = """\
# Command line

Every command, as its own `--help` tells it. Written by `scripts/write_cli_reference.py`; do not
edit it. `python -m proxy` is the same as `sluice`. Ctrl-C breaks a command off with exit code 130;
those that run until they are stopped (`serve`, `sim`, `up`, `record`, `doctor --follow`) end as
they should.

"""
_AS_WRITTEN = "\b\n"  # click's mark of a paragraph whose lines stay as they are


def top_context() -> click.Context:
    """That of `sluice` as it is run. Which help options there are is kept at the command by the
    first context that asks; another one would take -h from whoever comes later."""
    return click.Context(sluice, info_name="sluice", **sluice.context_settings)


def reference() -> str:
    """The whole page."""
    context = top_context()
    names = sluice.list_commands(context)
    commands = [command for name in names if (command := sluice.get_command(context, name))]
    table = ["| command | does |", "| --- | --- |"]
    table += [f"| [`sluice {one.name}`](#sluice-{one.name}) | {_brief(one)} |" for one in commands]
    sections = [section(one, click.Context(one, context, info_name=one.name)) for one in commands]
    return _HEAD + "\n".join(table) + "\n\n" + "\n".join(sections)


def section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## sluice {command.name}", f"```\n{usage}\n```", *_paragraphs(command.help or "")]
    options = (one for one in command.params if isinstance(one, click.Option))
    told = [option for option in options if not option.hidden]
    settings = [option for option in told if _is_setting(option)]
    if settings:
        names = ", ".join(f"`{option.opts[0]}`" for option in settings)
        parts.append(f"These flags are [settings](settings.md) by another name: {names}.")
    rows = [_row(option, context) for option in told if option not in settings]
    if rows:
        parts.append("\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _brief(command: click.Command) -> str:
    return _line((command.help or "").split("\n\n", 1)[0])


def _paragraphs(help_text: str) -> Iterator[str]:
    """What is to stay as written, examples above all, becomes a block of code."""
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if not paragraph.startswith(_AS_WRITTEN):
            yield _line(paragraph)
            continue
        lines = paragraph.removeprefix(_AS_WRITTEN).splitlines()
        if lines[0].startswith("Examples"):
            yield "```sh\n" + "\n".join(line.strip() for line in lines[1:]) + "\n```"
        else:
            yield _line(" ".join(lines))


def _is_setting(option: click.Option) -> bool:
    """Made from a setting, whose variable its help names; other commands have some of these names
    for what is their own."""
    name = option.name or ""
    return name in COMMON_SETTINGS and f"[{variable_name(name)}" in (option.help or "")


def _row(option: click.Option, context: click.Context) -> str:
    text, default = _split(option.help or "")
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {_cell(option.make_metavar(context))}"
    return f"| {names}{value} | {_cell(default or _default(option, context))} | {_cell(text)} |"


def _split(text: str) -> tuple[str, str]:
    """The text without `[default: ...]`, and that default."""
    found = re.search(r"\s*\[default: (.*?)\]", text)
    return (text.replace(found[0], ""), found[1]) if found else (text, "")


def _default(option: click.Option, context: click.Context) -> str:
    """In the words of its own help where that has some; nothing for a switch that is off."""
    if isinstance(option.show_default, str):
        return option.show_default
    value = option.get_default(context, call=False)
    if option.secondary_opts:
        return option.opts[0] if value else option.secondary_opts[0]
    return f"{value:g}" if isinstance(value, float) else str(value) if _is_plain(value) else ""


def _is_plain(value: object) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _line(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(reference())
