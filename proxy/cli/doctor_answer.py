"""What `sluice doctor` does with its sources, and its exit code."""

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


def answer(sources: Sequence[str], *, as_json: bool) -> int:
    """Reads them all to their ends, and judges them together."""
    intake = Intake()
    unreadable: dict[str, str] = {}
    for source in sources:
        problem = take_in(source, intake)
        if problem:
            unreadable[source] = problem
            click.echo(f"error: {source}: {problem}", err=True)
    diagnosis = diagnose(intake.findings())
    nothing = len(unreadable) == len(sources)
    if as_json:
        click.echo(json.dumps(as_object(diagnosis, unreadable), indent=2))
    elif not nothing:
        print_diagnosis(Console(highlight=False), diagnosis)
    return _UNREADABLE if nothing else _EXITS[diagnosis.oom]


def watch(sources: Sequence[str], *, as_json: bool) -> int:
    """Until it is told to end. In `--json` each report is an object on a line of its own."""
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
        return _UNREADABLE
    return _EXITS[found]
