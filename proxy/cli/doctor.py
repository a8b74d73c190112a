"""`sluice doctor`: was it an OOM, in which phase, transient or steady, and which knob to turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console

from proxy.cli.doctor_follow import follow
from proxy.cli.doctor_page import as_object, print_diagnosis
from proxy.cli.doctor_sources import is_url, take_in
from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.doctor.evidence import Diagnosis

_UNREADABLE = 2
_EXITS = {False: 0, True: 3, None: 4}


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE|URL...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a page.")
@click.option(
    "--follow",
    "watch",
    is_flag=True,
    help="Go on reading what is appended, through rotation, and report each OOM as it comes.",
)
@click.pass_context
def doctor(ctx: click.Context, sources: tuple[str, ...], as_json: bool, watch: bool) -> None:
    """Find out what a vLLM server ran out of, and what to change.

    Takes any mix of vLLM logs (also of journald, docker, kubectl; also gzipped), memory curves of
    nvidia-smi, files of `sluice record`, metrics pages or URLs of an engine or of Sluice, and
    kernel logs (dmesg). What a file is is told by its content. `-` is standard input.

    \b
    Exit code: 0 no out-of-memory found, 3 found, 4 not enough evidence,
    2 nothing could be read. One unreadable file among others is a line on
    standard error, and does not change the code.

    \b
    Examples:
      sluice doctor vllm.log
      sluice doctor vllm.log gpu.csv http://gpu-host:8000/metrics
      journalctl -k | sluice doctor - vllm.log.1.gz
      kubectl logs --previous vllm-0 | sluice doctor --json - | jq .advice
      sluice doctor --follow vllm.log
    """
    if watch:
        _follow(ctx, sources, as_json=as_json)
        return
    intake = Intake()
    unreadable: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        problem = take_in(source, intake)
        if problem:
            unreadable[source] = problem
            click.echo(f"error: {source}: {problem}", err=True)
    diagnosis = diagnose(intake.findings())
    nothing = len(unreadable) == len(set(sources))
    if as_json:
        click.echo(json.dumps(as_object(diagnosis, unreadable), indent=2))
    elif not nothing:
        print_diagnosis(Console(highlight=False), diagnosis)
    ctx.exit(_UNREADABLE if nothing else _EXITS[diagnosis.oom])


def _follow(ctx: click.Context, sources: Sequence[str], *, as_json: bool) -> None:
    """In `--json` each report is an object on a line of its own."""
    urls = [source for source in sources if is_url(source)]
    if urls:
        raise click.UsageError(f"--follow watches files and standard input, not {urls[0]}")
    console = Console(highlight=False)

    def report(diagnosis: Diagnosis) -> None:
        if as_json:
            click.echo(json.dumps(as_object(diagnosis, {})))
        else:
            print_diagnosis(console, diagnosis)
            console.print()

    try:
        found = follow(sources, report, lambda line: click.echo(line, err=True))
    except OSError as error:
        click.echo(f"error: {error.filename}: {(error.strerror or str(error)).lower()}", err=True)
        ctx.exit(_UNREADABLE)
    ctx.exit(_EXITS[found])
