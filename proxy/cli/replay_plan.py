"""The load that `sluice replay` is told to play: read or made up before anything is sent."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.replay_options import asking_of, patience_of
from proxy.replay.schedule import Schedule, limited, made_up, played
from proxy.replay.synthetic.arrival_process import parse_arrivals
from proxy.replay.synthetic.distribution import parse_distribution
from proxy.replay.synthetic.specification import BadSpecificationError
from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace
from proxy.replay.traces.trace import Trace, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.replay.client.requester import Patience
    from proxy.replay.session import Asking

_UNREADABLE = 2
_DEFAULT_DURATION_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to ask and how, what clients do, what the load is called, and when what is asked."""

    asking: Asking
    patience: Patience
    source: str
    schedule: Schedule


def plan_of(url: str, trace: Path | None, told: dict[str, Any]) -> Plan:
    """Raises UsageError for options that make no sense; exits where a trace cannot be read."""
    asking, patience = asking_of(url, told), patience_of(told)
    return Plan(asking, patience, *schedule_of(trace, told))


def schedule_of(trace: Path | None, told: dict[str, Any]) -> tuple[str, Schedule]:
    """What it is called, and when what is asked. Exits where the trace cannot be read."""
    arrivals = _arrivals_spec(told)
    if trace is not None and arrivals is not None:
        raise click.UsageError(
            "a trace file and --rate or --arrivals exclude each other: --limit-rate thins a trace, "
            "--lengths TRACE takes its lengths alone"
        )
    if trace is None and arrivals is None:
        raise click.UsageError("name a trace file, or make a load up with --rate or --arrivals")
    rng = random.Random(told["seed"])
    try:
        if trace is not None:
            source, schedule = _from_trace(trace, told)
        else:
            source, schedule = _made_up(arrivals or "", told, rng)
    except BadSpecificationError as error:
        raise click.UsageError(str(error)) from error
    if told["limit_rate"] is not None:
        schedule = limited(schedule, told["limit_rate"], rng)
    if not schedule.arrivals:
        raise click.UsageError("no request arrives in so short a time at such a rate")
    return source, schedule


def _arrivals_spec(told: dict[str, Any]) -> str | None:
    if told["rate"] is not None and told["arrivals"] is not None:
        raise click.UsageError("--rate and --arrivals exclude each other")
    return f"poisson:{told['rate']:g}" if told["rate"] is not None else told["arrivals"]


def _from_trace(path: Path, told: dict[str, Any]) -> tuple[str, Schedule]:
    duration, speed = told["duration"], told["speed"]
    until_s = inf if duration is None else told["from_s"] + duration * speed
    trace = _read(path, Window(told["from_s"], until_s), told)
    schedule = played(
        trace.arrivals, speed=speed, duration_s=duration, block_tokens=trace.block_tokens
    )
    noted = Schedule(schedule.arrivals, schedule.duration_s, schedule.block_tokens, trace.notes)
    return f"{trace.format} trace {path.name}", noted


def _made_up(written: str, told: dict[str, Any], rng: random.Random) -> tuple[str, Schedule]:
    process = parse_arrivals(written)
    lengths, shown = _lengths(told)
    duration = _DEFAULT_DURATION_S if told["duration"] is None else told["duration"]
    if duration <= 0:
        raise BadSpecificationError("--duration must be above 0")
    schedule = made_up(process, lengths, duration, rng)
    return f"{written}, {shown}", schedule


def _lengths(told: dict[str, Any]) -> tuple[Callable[[random.Random], tuple[int, int]], str]:
    if told["lengths"] is not None:
        trace = _read(told["lengths"], Window(), told)
        pairs = [(a.prompt_tokens, a.output_tokens) for a in trace.arrivals]
        return lambda rng: rng.choice(pairs), f"lengths of {told['lengths'].name}"
    prompt = parse_distribution(told["prompt_tokens"], "--prompt-tokens")
    output = parse_distribution(told["output_tokens"], "--output-tokens")
    shown = f"prompts {told['prompt_tokens']}, answers {told['output_tokens']}"
    return lambda rng: (round(prompt.draw(rng)), round(output.draw(rng))), shown


def _read(path: Path, window: Window, told: dict[str, Any]) -> Trace:
    try:
        return read_trace(path, window, told["time_unit"])
    except BadTraceError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(_UNREADABLE) from error
