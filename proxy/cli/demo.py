"""`sluice demo`: what a burst does to an engine alone, and to one behind Sluice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from proxy.cli.beside import child_serving_url, simulated_engine_beside
from proxy.cli.plain_types import NumberRange, WholeRange
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.storm import Storm, StormSummary, run_storm, summarize_storm

if TYPE_CHECKING:
    from collections.abc import Iterator

# Eight sequences at 10.5 ms a step: 100 tokens take 1.05 s, and 7.6 requests a second are the most.
_MAX_NUM_SEQS = 8
_TOKENS = 100
_QUEUE_TIMEOUT_S = 2
_BODY = {
    "model": "simulated",
    "prompt": "Tell me a story.",
    "max_tokens": _TOKENS,
    "ignore_eos": True,
}
_SEED = 1


# One process plays all the clients; above these a demo would measure that process.
_RATE = NumberRange(0, 1000, min_open=True)
_SECONDS = NumberRange(0, 3600, min_open=True)


@click.command()
@click.option(
    "--rate",
    type=_RATE,
    default=25.0,
    help="Requests a second; the engine serves 7.6 at its best.",
)
@click.option("--seconds", type=_SECONDS, default=15.0, help="How long requests arrive.")
@click.option("--timeout", type=_SECONDS, default=5.0, help="Seconds a client waits for one try.")
@click.option(
    "--retries",
    type=WholeRange(0, 10),
    default=2,
    help="How often a client tries again, as the SDK does.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def demo(rate: float, seconds: float, timeout: float, retries: int, as_json: bool) -> None:
    """Overload two simulated engines at once, one of them behind Sluice, and compare.

    Clients behave as the OpenAI SDK does. A good answer is one that came within the time a client
    waits for one try, counted from its first try.

    \b
    Examples:
      sluice demo
      sluice demo --rate 80 --seconds 30
    """
    patience = Patience(PROFILES["openai-python"], timeout, retries)
    storm = Storm("/v1/completions", _BODY, rate, seconds, patience)
    with (
        simulated_engine_beside(_MAX_NUM_SEQS, quiet=True) as alone,
        simulated_engine_beside(_MAX_NUM_SEQS, quiet=True) as engine,
        _gateway_beside(engine) as behind_sluice,
    ):
        results = asyncio.run(_both(storm, alone, behind_sluice, quiet=as_json))
    if as_json:
        click.echo(json.dumps({name: asdict(summary) for name, summary in results.items()}))
    else:
        Console().print(_table(results))


async def _both(
    storm: Storm, alone: str, behind_sluice: str, *, quiet: bool
) -> dict[str, StormSummary]:
    expected = storm.rate_per_s * storm.duration_s
    with Progress(console=Console(stderr=True), disable=quiet) as bars:

        async def one(name: str, url: str) -> StormSummary:
            bar = bars.add_task(name, total=expected)
            records = await run_storm(
                url, storm, _SEED, lambda ended: bars.update(bar, completed=ended)
            )
            bars.update(bar, total=len(records))
            return summarize_storm(records, storm.duration_s, storm.patience.timeout_s)

        names = ("engine alone", "engine behind Sluice")
        summaries = await asyncio.gather(*map(one, names, (alone, behind_sluice)))
    return dict(zip(names, summaries, strict=True))


@contextlib.contextmanager
def _gateway_beside(engine_url: str) -> Iterator[str]:
    settings = {
        "SLUICE_UPSTREAM_URLS": engine_url,
        "SLUICE_HOST": "127.0.0.1",
        "SLUICE_PORT": "0",
        "SLUICE_ADMIN_PORT": "0",
        "SLUICE_MAX_NUM_SEQS": str(_MAX_NUM_SEQS),
        "SLUICE_QUEUE_TIMEOUT": str(_QUEUE_TIMEOUT_S),
        "SLUICE_LOG_LEVEL": "warning",
    }
    # The demo's own settings, whatever the shell has for a gateway of the user's.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    command = [sys.executable, "-m", "proxy", "serve", "--exit-with-stdin"]
    with child_serving_url(command, {**inherited, **settings}, quiet=True) as url:
        yield url


def _table(results: dict[str, StormSummary]) -> Table:
    table = Table(title="The same burst of clients, at the same time")
    table.add_column("")
    for name in results:
        table.add_column(name, justify="right")
    columns = list(results.values())
    rows = {
        "requests": [f"{s.offered}" for s in columns],
        "good answers": [f"{s.good}" for s in columns],
        "good answers per second": [f"{s.good_per_s:.1f}" for s in columns],
        "answers that came too late": [f"{s.late}" for s in columns],
        "gave up without an answer": [f"{s.failed}" for s in columns],
        "tries per request": [f"{s.tries_per_request:.2f}" for s in columns],
        "tries refused at once": [f"{s.refused_tries}" for s in columns],
        "time of a good answer, median and p99": [_seconds(s.good_e2e_s) for s in columns],
    }
    for label, cells in rows.items():
        table.add_row(label, *cells)
    return table


def _seconds(pair: tuple[float, float] | None) -> str:
    return "-" if pair is None else f"{pair[0]:.1f} s, {pair[1]:.1f} s"
