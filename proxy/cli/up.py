"""`sluice up`: an engine and the gateway in front of it, for one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from proxy.cli.plain_types import NumberRange, WholeRange
from proxy.cli.settings_options import COMMON_SETTINGS, settings_options

# It starts the one engine that there is.
_OF_ENGINES_ELSEWHERE = {"upstream_urls", "upstreams_file", "affinity"}
_FLAGS = [field for field in COMMON_SETTINGS if field not in _OF_ENGINES_ELSEWHERE]


@click.command(context_settings={"allow_interspersed_args": False})
@settings_options(*_FLAGS)
@click.option(
    "--command",
    "written",
    metavar="COMMAND",
    help="What starts the engine, in front of its arguments.  [default: vllm serve]",
)
@click.option(
    "--engine-port",
    type=WholeRange(0, 65535),
    default=0,
    help="The engine's own port on 127.0.0.1; 0 takes any free one.  [default: 0]",
)
@click.option(
    "--engine-log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to append the engine's output to, as it wrote it.",
)
@click.option(
    "--give-up-after",
    type=WholeRange(min=1),
    default=5,
    metavar="DEATHS",
    help="Deaths in a row after which the engine is not started again.  [default: 5]",
)
@click.option(
    "--first-delay",
    type=NumberRange(min=0, max=60),
    default=1.0,
    metavar="SECONDS",
    help="About how long to wait before the first restart; each next wait is twice as long, up to "
    "a minute.  [default: 1]",
)
@click.option(
    "--stop-timeout",
    type=NumberRange(min=0),
    default=20.0,
    metavar="SECONDS",
    help="Time for the engine to end after SIGTERM, before it is killed.  [default: 20]",
)
@click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: one JSON object.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--] ARGUMENT...")
@click.pass_context
def up(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    overrides: dict[str, Any],
    **options: Any,  # noqa: ANN401 - what the options above say they are
) -> None:
    """Start vLLM and the gateway together, with limits that follow from vLLM's own arguments.

    ARGUMENT... is what stands behind `vllm serve`. The engine gets a port of its own that only this
    machine reaches; its --host and --port become the gateway's, so clients go on asking where they
    did. What flags, SLUICE_... variables or a .env file set is left as it is.

    The gateway answers at once, and refuses with 503 until the engine is up. An engine that dies is
    diagnosed as `sluice doctor` does it and started again, after waits that grow. SIGTERM: running
    requests finish, then the engine ends; a second one ends both at once. Nothing of the engine
    outlives this command, even if that is killed with -9 (Linux).

    \b
    Exit code: 0 ended as asked, 1 could not start, 2 bad settings or arguments,
    3 gave up on an engine that runs out of memory, 4 gave up for another reason.

    \b
    Examples:
      sluice up -- Qwen/Qwen3-8B --max-num-seqs 64 --max-model-len 8192 --port 8000
      sluice up --queue-timeout 3 --engine-log vllm.log -- Qwen/Qwen3-8B
      sluice up --dry-run -- Qwen/Qwen3-8B --max-num-seqs 64
      sluice up --command '/opt/vllm/bin/vllm serve' -- Qwen/Qwen3-8B
      sluice up --command 'sluice sim' -- --max-num-seqs 8
    """
    from proxy.cli import up_run  # noqa: PLC0415 - for its help nobody waits for this

    if options["as_json"] and not options["dry_run"]:
        raise click.UsageError("--json is for --dry-run")
    ctx.exit(up_run.answer(arguments, overrides, up_run.UpOptions(**options)))
