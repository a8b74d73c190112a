"""docs/cli.md is what the commands say of themselves."""

from __future__ import annotations

import click
import pytest

from proxy.cli.main import sluice
from scripts.write_cli_reference import PAGE, reference, section, top_context

CONTEXT = top_context()
COMMANDS = sluice.list_commands(CONTEXT)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: .venv/bin/python scripts/write_cli_reference.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_of_a_command_is_left_out(name: str) -> None:
    command = sluice.get_command(CONTEXT, name)
    assert command is not None
    told = section(command, click.Context(command, CONTEXT, info_name=name))
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    assert [
        one.opts for one in shown if one.opts[0].startswith("-") and f"`{one.opts[0]}`" not in told
    ] == []
