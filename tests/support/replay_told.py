"""What `sluice replay` makes of its options, for tests of what comes of them."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from proxy.cli.replay_options import load_options


def told(*arguments: str) -> dict[str, Any]:
    """With `sk-env` in OPENAI_API_KEY."""
    heard: dict[str, Any] = {}

    @click.command()
    @load_options
    def command(**told: Any) -> None:  # noqa: ANN401 - options of many types
        heard.update(told)

    ran = CliRunner(env={"OPENAI_API_KEY": "sk-env"}).invoke(command, arguments)
    assert ran.exit_code == 0, ran.output
    return heard
