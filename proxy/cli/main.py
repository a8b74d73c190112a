"""The `sluice` command: finds its subcommands, turns bad settings into lines and exit 2, and Ctrl-C
into a line and exit 130."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import click

from proxy import __version__
from proxy.cli.interrupts import INTERRUPTED, SAID, end_at_once, raise_as_usual
from proxy.telemetry.last_resort import print_uncaught

if TYPE_CHECKING:
    from proxy.config import SettingsError

# Each lives in the module of its name, as a click command of that name.
_COMMANDS = (
    "serve",
    "check",
    "demo",
    "sim",
    "up",
    "replay",
    "compare",
    "tune",
    "doctor",
    "record",
    "plan",
)

_EXAMPLES = """\b
Examples:
  SLUICE_MAX_NUM_SEQS=256 sluice serve
      in front of the engine at http://127.0.0.1:8000
  sluice serve --upstream sim --port 8080
      in front of a simulated engine, to try it out
  sluice check
      which settings are in force, and which limit binds first

Every setting is an environment variable, listed in docs/settings.md.
"""

_BAD_SETTINGS = 2


class _Commands(click.Group):
    """Imports a subcommand only when it is asked for: `sluice check` needs no web server."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"proxy.cli.{cmd_name}"), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"proxy.cli.{cmd_name}.{cmd_name} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """From here on the command is there to see to Ctrl-C."""
        found = super().resolve_command(ctx, args)
        if raise_as_usual():
            ctx.call_on_close(end_at_once)
        return found

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(SAID, err=True)
            ctx.exit(INTERRUPTED)
        except _settings_errors() as error:
            for problem in error.problems:
                click.echo(f"error: {problem}", err=True)
            ctx.exit(_BAD_SETTINGS)


def _settings_errors() -> tuple[type[SettingsError], ...]:
    """Whoever has not loaded what reads settings has found none wrong: a help does not wait for it,
    nor does a command that ends with an exit code."""
    config = sys.modules.get("proxy.config")
    return () if config is None else (config.SettingsError,)


@click.command(
    cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="sluice")
def sluice() -> None:
    """An admission-control gateway in front of vLLM.

    It lets fewer sequences into the engine than the engine can hold, keeps a short queue, and
    answers the rest at once with an error that OpenAI clients understand.
    """


def main() -> None:
    sys.excepthook = print_uncaught
    sluice(prog_name="sluice")
