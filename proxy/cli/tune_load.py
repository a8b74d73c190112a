"""The load of a tuning, as `sluice replay` understands the options that are passed on to it.

They are read before anything is started: a gateway and a replay that fails are a long way to learn
of a slip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from proxy.cli.replay import replay
from proxy.cli.replay_plan import plan_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_BAD_OPTIONS = 2
# Each trial would write over the one before it.
_OF_ONE_REPLAY = {"output": "--output", "html": "--html", "recording": "--recording"}


def load_duration_s(url: str, options: Sequence[str]) -> float:
    """How long requests arrive in one trial. Exits with a line for what the replay would refuse."""
    try:
        told = replay.make_context("sluice replay", [url, *options]).params
        for name, option in _OF_ONE_REPLAY.items():
            if told[name] is not None:
                raise click.UsageError(f"{option} is of a single replay: a tuning plays many")
        return plan_of(told["url"], told["trace"], told).schedule.duration_s
    except click.UsageError as error:
        click.echo(f"error: options of sluice replay: {error.format_message()}", err=True)
        raise SystemExit(_BAD_OPTIONS) from error
