"""What `sluice replay` is told on its command line, as values that the replay understands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proxy import __version__
from proxy.cli.plain_types import WHOLE, NumberRange, WholeRange
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.request_times import Objective
from proxy.replay.schedule import LengthLimits
from proxy.replay.session import Asking
from proxy.replay.synthetic.distribution import parse_distribution
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s
from proxy.upstream.address import UpstreamAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.upstream.port import RawHeaders

    Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path)
_ABOVE_ZERO = NumberRange(0, min_open=True)
_TOKENS = WholeRange(1)
_PRINTABLE = re.compile(r"[\x20-\x7e]*")


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
    _option(
        "--seed", type=WHOLE, default=1, show_default=True, help="Of everything that is random."
    ),
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
        type=WholeRange(0),
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
    _option("--max-retries", type=WholeRange(0, 100), help="[default: the client's own]"),
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
