"""What `sluice replay` is told on its command line, as values that the replay understands."""

from __future__ import annotations

import json
import random
import re
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy import __version__
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.request_times import Objective
from proxy.replay.schedule import LengthLimits, Schedule, limited, made_up, played
from proxy.replay.session import Asking
from proxy.replay.synthetic.arrival_process import parse_arrivals
from proxy.replay.synthetic.distribution import parse_distribution
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s
from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace
from proxy.replay.traces.trace import Trace, Window
from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.upstream.port import RawHeaders

    Command = TypeVar("Command", bound=Callable[..., Any])

_UNREADABLE = 2
_FILE = click.Path(path_type=Path)
_ABOVE_ZERO = click.FloatRange(0, min_open=True)
_TOKENS = click.IntRange(1)
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_DEFAULT_DURATION_S = 60.0


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """`1.5`, `250ms`, `90s`, `2m`, `1h`."""
    if value is None:
        return None
    try:
        return duration_s(value, "it")
    except BadSpecificationError as error:
        raise click.BadParameter(str(error)) from error


def _option(*names: str, is_time: bool = False, **kept: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - click's own
    if is_time:
        kept |= {"callback": _seconds, "metavar": "TIME"}
    return click.option(*names, **kept)


_OPTIONS: Sequence[Callable[[Any], Any]] = (
    _option(
        "--arrivals",
        metavar="SPEC",
        help="A load that is made up: poisson:20, "
        "constant:20, gamma:20,cv=3 (bursts), ramp:5-50, step:5@60s,50@30s.",
    ),
    _option("--rate", type=_ABOVE_ZERO, help="The same as --arrivals poisson:RATE."),
    _option(
        "--prompt-tokens",
        default="lognormal:200,1500",
        show_default=True,
        metavar="SPEC",
        help="Of a made-up load: 512, uniform:100-900, exponential:300 or lognormal:P50,P95.",
    ),
    _option(
        "--output-tokens",
        default="lognormal:100,400",
        show_default=True,
        metavar="SPEC",
        help="The same for answers.",
    ),
    _option(
        "--lengths",
        type=_FILE,
        metavar="TRACE",
        help="Draw prompt and output of a made-up load from a trace, in pairs.",
    ),
    _option(
        "--duration",
        is_time=True,
        help="How long requests arrive.  [default: all of a trace, 60s of a made-up load]",
    ),
    _option("--from", "from_s", is_time=True, default="0", help="Leave out the trace's beginning."),
    _option(
        "--speed",
        type=_ABOVE_ZERO,
        default=1.0,
        show_default=True,
        help="Times as fast as the trace was recorded.",
    ),
    _option(
        "--limit-rate",
        type=_ABOVE_ZERO,
        metavar="RATE",
        help="Thin the load to so many requests a second on average; bursts stay bursts.",
    ),
    _option("--max-prompt-tokens", type=_TOKENS, help="Cut longer prompts."),
    _option("--max-output-tokens", type=_TOKENS, help="Cut longer answers."),
    _option(
        "--time-unit",
        type=click.Choice(["s", "ms"]),
        help="Of a JSON trace's timestamps, where it cannot be told.",
    ),
    _option("--seed", default=1, show_default=True, help="Of everything that is random."),
    _option(
        "--route",
        type=click.Choice(["chat", "completions"]),
        default="chat",
        show_default=True,
        help="Which API to ask.",
    ),
    _option("--model", help="[default: the first that /v1/models lists]"),
    _option("--stream/--no-stream", default=True, show_default=True),
    _option(
        "--exact-output/--no-exact-output",
        default=True,
        show_default=True,
        help="Answers of exactly the length asked for, by vLLM's ignore_eos and min_tokens.",
    ),
    _option("--body", metavar="JSON", help="More fields for each request, as an object."),
    _option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Sent with each request; may be given more than once.",
    ),
    _option(
        "--api-key",
        envvar="OPENAI_API_KEY",
        show_envvar=True,
        metavar="KEY",
        help="Sent as a bearer token.",
    ),
    _option(
        "--prompt-salt",
        type=click.IntRange(0),
        metavar="N",
        help="The same words in "
        "each run with one N.  [default: other words in each run, so that no run finds the "
        "prompts of an earlier one in the engine's prefix cache]",
    ),
    _option(
        "--client",
        type=click.Choice(sorted(PROFILES)),
        default="openai-python",
        show_default=True,
        help="Whose retries to play.",
    ),
    _option(
        "--timeout",
        is_time=True,
        default="600s",
        help="How long a client waits for an answer to begin, or to go on.  [default: 600s]",
    ),
    _option("--max-retries", type=click.IntRange(0, 100), help="[default: the client's own]"),
    _option(
        "--abandon-after",
        metavar="SPEC",
        help="Clients leave when they have no whole "
        "answer after so long: 30s, uniform:10s-60s, exponential:30s, lognormal:P50,P95.",
    ),
    _option(
        "--keep-alive/--no-keep-alive",
        default=True,
        show_default=True,
        help="Whether connections are used again.",
    ),
    _option("--slo-ttft", is_time=True, help="A good answer begins within this time."),
    _option("--slo-tpot", is_time=True, help="... takes no more for each further token."),
    _option("--slo-e2e", is_time=True, help="... is whole within this time."),
)


def load_options(command: Command) -> Command:
    """Every option that says what is asked, of whom, by what clients."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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


def limits_of(told: dict[str, Any]) -> LengthLimits:
    return LengthLimits(told["max_prompt_tokens"], told["max_output_tokens"])


def objective_of(told: dict[str, Any]) -> Objective:
    return Objective(ttft_s=told["slo_ttft"], tpot_s=told["slo_tpot"], e2e_s=told["slo_e2e"])


def patience_of(told: dict[str, Any]) -> Patience:
    profile = PROFILES[told["client"]]
    retries = profile.max_retries if told["max_retries"] is None else told["max_retries"]
    if told["timeout"] <= 0:
        raise click.BadParameter("must be above 0", param_hint="--timeout")
    leaves = None
    if told["abandon_after"] is not None:
        try:
            leaves = parse_distribution(told["abandon_after"], "--abandon-after", duration_s)
        except BadSpecificationError as error:
            raise click.UsageError(str(error)) from error
    return Patience(profile, told["timeout"], retries, leaves)


def asking_of(url: str, told: dict[str, Any]) -> Asking:
    try:
        address = UpstreamAddress.parse(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URL") from error
    return Asking(
        address=address,
        headers=_headers(address, told["api_key"], told["headers"]),
        route=told["route"],
        model=told["model"],
        stream=told["stream"],
        exact_output=told["exact_output"],
        extra=_extra(told["body"]),
        salt=told["prompt_salt"],
        keep_alive=told["keep_alive"],
    )


def _headers(address: UpstreamAddress, api_key: str | None, written: Sequence[str]) -> RawHeaders:
    own = {
        "host": address.authority.decode(),
        "accept": "application/json",
        "content-type": "application/json",
        "user-agent": f"sluice-replay/{__version__}",
    }
    if api_key:
        own["authorization"] = f"Bearer {api_key}"
    more = [_header(line) for line in written]
    overruled = {name.lower() for name, _ in more}
    kept = [(name, value) for name, value in own.items() if name not in overruled]
    return [(name.encode(), value.encode()) for name, value in kept + more]


def _header(line: str) -> tuple[str, str]:
    """A value may be a secret: it is not shown."""
    name, colon, value = line.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()):
        raise click.BadParameter("write it as 'Name: value'", param_hint="--header")
    if not _PRINTABLE.fullmatch(value):
        raise click.BadParameter(f"the value of {name} is not ASCII", param_hint="--header")
    return name.strip(), value.strip()


def _extra(body: str | None) -> dict[str, object]:
    if body is None:
        return {}
    try:
        extra = json.loads(body)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--body") from error
    if not isinstance(extra, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--body")
    return extra
