"""The tables, and the page docs/overload.md around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.arithmetic import Spread
from tests.bench.goals import Verdict
from tests.bench.report import spread_text, table
from tests.bench.storm.clients import GOOD_WITHIN_S, MANNERS, TRY_TIMEOUT_S
from tests.bench.storm.closed_loop import RAMP_S
from tests.bench.storm.engines import MAX_NUM_SEQS, Kind
from tests.bench.storm.exchange import TOKENS
from tests.bench.storm.goals import judge
from tests.bench.storm.measure import NORMAL_WITHIN_S
from tests.bench.storm.results import COLUMNS
from tests.bench.storm.rows import LIMITS, rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tests.bench.report import Setting
    from tests.bench.storm.clients import Manner
    from tests.bench.storm.results import Results
    from tests.bench.storm.rows import Row

# What others may take of a core before the figures are in doubt.
_QUIET = 0.05
_TITLES = {Kind.VLLM: "On a real vLLM", Kind.SIM: "On the simulated engine"}


def page(
    found: Mapping[Kind, Results],
    times: Sequence[float],
    setting: Setting,
    only: Collection[str] | None = None,
) -> str:
    """The whole of docs/overload.md. `only`: names of ways, all without."""
    sections = [section(kind, results, times, only) for kind, results in found.items()]
    return "\n\n".join((_introduction(times), _run(found, setting), *sections)) + "\n"


def section(
    kind: Kind, results: Results, times: Sequence[float], only: Collection[str] | None = None
) -> str:
    """One engine: goals, then a table for each manner of clients."""
    listed = rows(times, only)
    parts = [
        f"## {_TITLES[kind]}",
        _reference(results, times),
        _goals(results, times),
        *(
            f"### Clients: {manner.name}\n\n{_table(results, mine)}"
            for manner in MANNERS
            if (mine := _of(manner, listed))
        ),
        *(f"{row.name}: not measured in at least one round: {why}." for row, why in
          results.why_not.items()),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _of(manner: Manner, listed: Sequence[Row]) -> list[Row]:
    return [row for row in listed if row.manner is manner]


def _reference(results: Results, times: Sequence[float]) -> str:
    loop = spread_text(Spread.of(results.references, len(results.references)), 2)
    offered = ", ".join(
        f"{one:g} x was {spread_text(results.offered_at(one), 1)} requests/s" for one in times
    )
    return (
        f"Closed loop of {LIMITS.in_flight} clients: {loop} answers/s. Offered: {offered}. "
        f"The clients took {_share(results, 'client_share')} of their core. What is not of this "
        f"measurement took {_share(results, 'engine_noise')} of the engine's core, and "
        f"{_share(results, 'noise')} of the other.{_noise_warning(results)}"
    )


def _noise_warning(results: Results) -> str:
    most = max(results.most(key) or 0.0 for key in ("engine_noise", "noise"))
    if most <= _QUIET:
        return ""
    return "\n\n**The machine was not quiet: these figures are provisional.**"


def _share(results: Results, key: str) -> str:
    most = results.most(key)
    return "an unknown share" if most is None else f"at most {most:.1%}"


def _goals(results: Results, times: Sequence[float]) -> str:
    judged = judge(results, times)
    lines = [
        (
            f"{one.times:g} x: {one.goal.text}",
            one.goal.wanted,
            spread_text(one.measured),
            one.verdict,
        )
        for one in judged
    ]
    missed = [
        f"{one.times:g} x: {one.goal.text} ({one.goal.wanted})"
        for one in judged
        if one.verdict is not Verdict.REACHED
    ]
    summary = "Falls short: " + "; ".join(missed) + "." if missed else "Every goal is reached."
    return f"{table(('Sluice', 'goal', 'measured', ''), lines)}\n\n{summary}"


def _table(results: Results, listed: Sequence[Row]) -> str:
    heading = ["in front of the engine", "offered", *(column.heading for column in COLUMNS)]
    lines = [
        [
            row.way.name,
            f"{row.times:g} x",
            *(
                spread_text(results.spread(row, column.key), column.digits, absent="-")
                for column in COLUMNS
            ),
        ]
        for row in listed
    ]
    return table(heading, lines)


def _run(found: Collection[Kind], setting: Setting) -> str:
    lines = (
        ("when", setting.when),
        ("machine", setting.machine),
        ("load average before", setting.load_average),
        ("engines", ", ".join(found)),
        ("rounds", f"{setting.rounds}, storms of {setting.seconds:g} s"),
        *setting.versions.items(),
    )
    return f"## This run\n\n{table(('', ''), lines)}"


def _introduction(times: Sequence[float]) -> str:
    rates = " and ".join(f"{one:g} times" for one in times)
    seats, places, timeout_s = LIMITS.in_flight, LIMITS.waiting, LIMITS.queue_timeout_s
    return f"""\
# Overload

What is left of an engine's work when {rates} as much is asked of it as it can do:
with nothing in front of it, with its own limit, and behind four proxies. Written by `make storm`,
which measures everything on this page in one run on one machine; do not edit it.

To repeat it you need Linux on x86_64, two cores, Python 3.13 and 3.11, and a machine that does
nothing else. The first run installs vLLM for the CPU (5 GB) and the peers (500 MB) outside the
checkout, see `scripts/setup_vllm.sh` and `scripts/setup_bench.sh`.

| command | does |
| --- | --- |
| `make storm` | everything, in some two and a half hours; writes this page |
| `make storm STORM_ARGS=--quick` | one round of short storms; to the terminal only |
| `make storm STORM_ARGS="--engine sim --only Sluice"` | some of it; to the terminal only |

## Method

- The engine has one core to itself, clients and proxy share another. Left on both, the threads of
  vLLM's CPU build spin and starve everything else, and every proxy looks broken.
- The engine runs up to {MAX_NUM_SEQS} sequences. Every request makes it write exactly
  {TOKENS} tokens. vLLM runs a tiny model with random weights; its scheduler, server and metrics
  are the real ones. The simulated engine is about as fast.
- Every proxy is told the same: {seats} in flight, {places} waiting, {timeout_s} s in the queue.
  HAProxy has `maxconn {seats}` and a rule that refuses with 503 while {places} wait. The engine's
  own flag is `--max-num-queued-reqs {seats + places}`, which counts those that run as well; it is
  started anew with it. Proxies are started anew for every storm.
- Before and after each storm, {seats} clients in a closed loop ask the engine itself: the best it
  does at that limit. The mean of both is what a storm is compared with, and the rate before it is
  what is multiplied, so that a machine that drifts does so for both. Of loop and storm the first
  {RAMP_S:g} s are left out, in which an empty engine cannot have answered much, and the window
  fades in and out: many answers end at the same moment, and should not all be in it or out.
- Requests arrive by a Poisson process and wait for nobody. Clients give a try up after
  {TRY_TIMEOUT_S:g} s. As the OpenAI SDK they retry twice, after `retry-after-ms`, `Retry-After` or
  a backoff of their own, and obey `x-should-retry`. Deaf ones do the same but for that header,
  which nobody but Sluice sends. The third kind never retries. Every try has a connection of its
  own. Answers are not streamed: the first byte comes when the last token is made.
- Good is a whole answer within {GOOD_WITHIN_S:g} s of the first try; good/s counts those that came
  while requests arrived. The p99 to first byte is of answered requests, from their first try on,
  and in the next column from the try that was answered. A refusal is a 503, 429 or 408; its time
  is to its last byte, with the connection set up. Who was refused only after the queue timeout is
  not among them but in the next column, as a share of all tries.
- Running and waiting are the most that the engine's metrics page showed, asked every 0.25 s.
  Answers that nobody read: those that the engine finished, less those that clients read. The
  simulated engine shows a request that has come since its last step as waiting, vLLM does not.
- When arrivals end, probes of one token are sent, one after the other. Normal is when the first of
  three in a row was sent that were answered within 0.5 s each; who still retries goes on
  meanwhile. After {NORMAL_WITHIN_S:g} s it is given up.
- Rounds are interleaved: every row once, then every row again in the opposite order. A figure is
  the median of the rounds, with the least and the most of them. Goals are judged by the median."""
