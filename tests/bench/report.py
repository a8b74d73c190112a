"""The tables, and the page docs/benchmarks.md around them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.contenders import SLUICE, SLUICE_OTHER, VLLM_ROUTER
from tests.bench.goals import Verdict, goals_of
from tests.bench.peers import GOAL_PYTHON, OTHER_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.bench.arithmetic import Spread
    from tests.bench.figure import Column, Figure
    from tests.bench.results import Results

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Setting:
    """Where and how a run was made, as it is to be printed."""

    when: str
    machine: str
    load_average: str
    rounds: int
    seconds: float
    versions: Mapping[str, str]


def page(figures: Sequence[Figure], results: Results, setting: Setting) -> str:
    """The whole of docs/benchmarks.md."""
    sections = [section(figure, results) for figure in figures]
    return "\n\n".join(
        (_INTRODUCTION, _run(setting), goal_section(figures, results), *sections)
    ) + ("\n")


def goal_section(figures: Iterable[Figure], results: Results) -> str:
    """Every goal with what was measured, and which of them were missed or not measured."""
    goals, columns = goals_of(figures)
    rows = []
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
    for goal in goals:
        mine = goal.measure(results, columns, SLUICE)
        verdict = goal.judge(mine)
        other = goal.measure(results, columns, SLUICE_OTHER)
        rows.append((goal.text, goal.wanted, spread_text(mine), verdict, spread_text(other)))
        by_verdict[verdict].append(f"{goal.text} ({goal.wanted})")
    heading = ("figure", "goal", f"Python {GOAL_PYTHON}", "", f"Python {OTHER_PYTHON}")
    missed, unknown = by_verdict[Verdict.MISSED], by_verdict[Verdict.NOT_MEASURED]
    said = [f"Falls short: {'; '.join(missed)}."] if missed else []
    said += [f"Not measured: {'; '.join(unknown)}."] if unknown else []
    summary = "\n\n".join(said or ["Every goal is reached."])
    return f"## Goals\n\n{table(heading, rows)}\n\n{summary}"


def section(figure: Figure, results: Results) -> str:
    """A figure's method and its table: a row for each contender, with ratios."""
    heading = ["proxy"]
    for column in figure.columns:
        heading.append(column.heading)
        if column.with_ratio:
            heading.append(f"x {VLLM_ROUTER}")
    rows = [_row(figure, name, results) for name in figure.contenders]
    notes = _notes(figure, results)
    return f"## {figure.title}\n\n{figure.method}\n\n{table(heading, rows)}{notes}"


def _row(figure: Figure, contender: str, results: Results) -> list[str]:
    cells = [contender]
    for column in figure.columns:
        cells.append(_cell(column, contender, results))
        if column.with_ratio:
            ratio = results.ratio(column, contender)
            cells.append("-" if ratio is None else f"{significant(ratio.median)}")
    return cells


def _cell(column: Column, contender: str, results: Results) -> str:
    return spread_text(results.spread(column, contender), column.digits, absent="-")


def _notes(figure: Figure, results: Results) -> str:
    """What is missing and why, whether in every round or in some."""
    failures = [
        f"{contender}: {NOT_MEASURED} in at least one round: {why}."
        for contender in figure.contenders
        if (why := results.why_not(figure.name, contender)) is not None
    ]
    return "".join(f"\n\n{failure}" for failure in failures)


def spread_text(
    spread: Spread | None, digits: int | None = None, absent: str = NOT_MEASURED
) -> str:
    """`median (least to most)`, of one round the median alone.

    `digits` after the point; without, as many as three significant figures need.
    """
    if spread is None:
        return absent

    def number(value: float) -> str:
        return significant(value) if digits is None else f"{value:,.{digits}f}"

    said = []
    if spread.least != spread.most:
        said.append(f"{number(spread.least)} to {number(spread.most)}")
    if spread.missing:
        said.append(f"{spread.missing} rounds without")
    return f"{number(spread.median)} ({', '.join(said)})" if said else number(spread.median)


def significant(value: float, figures: int = 3) -> str:
    """In full, without an exponent, and never with fewer digits than the whole part has."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    whole_digits = math.floor(math.log10(abs(value))) + 1
    return f"{value:,.{max(figures - whole_digits, 0)}f}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in one)}|" for one in lines)


def _run(setting: Setting) -> str:
    return f"""\
## This run

{
        table(
            ("", ""),
            (
                ("when", setting.when),
                ("machine", setting.machine),
                ("load average before", setting.load_average),
                ("rounds", f"{setting.rounds}, windows of {setting.seconds:g} s"),
                *setting.versions.items(),
            ),
        )
    }"""


_INTRODUCTION = """\
# Benchmarks

Written by `make bench`, which measures everything on this page in one run on one machine; do not
edit it. To repeat it you need Linux on x86_64, at least two cores, Python 3.13 and 3.11, and a
machine that does nothing else. The first run installs the peers (470 MB, outside the checkout, see
`scripts/setup_bench.sh`) and, from Debian, HAProxy and wrk.

| command | does |
| --- | --- |
| `make bench` | everything, in some 25 minutes; writes this page |
| `make bench BENCH_ARGS=--quick` | one short round, in 3 minutes; to the terminal only |
| `make bench BENCH_ARGS="--only streams --only core"` | some figures; to the terminal only |

## Method

- One proxy at a time, alone on a core, in front of a fake engine that answers with prepared bytes
  (`tests/bench/fake_upstream.py`). Load and engine share another core. Every measurement starts
  engine and proxy anew.
- Limits are on in every proxy: 64 in flight, 128 waiting, 5 s in the queue, unless a figure says
  otherwise. The routers' limit is a bucket that refills, and bounds a rate rather than what is in
  flight. The two FastAPI proxies have a semaphore.
- Rounds are interleaved: every proxy once, then every proxy again. A figure is the median of the
  rounds, with the least and the most of them. A ratio is the median of the ratios within a round,
  which is what a machine that is shared disturbs least.
- CPU is the user and system time of the proxy's processes. It is disturbed less than rates are.
- Where a column is headed "added", the row "direct" has the direct way's own value.
- What could not be measured is said to be so. Goals are judged by the median on Python 3.13.
- How a Python was built decides more than most changes to a proxy: one built as pyenv does, without
  profile-guided optimization, took 1.7 to 2 times as long for a loop in pure Python as Debian's of
  the same version. A distribution's Python, or the one of the official images, is what is deployed
  and what this page should be measured with (`BENCH_PYTHON313`, `BENCH_PYTHON311`).
- The peers run as installed, but for their limits, quiet logs, and `http-no-delay` for HAProxy."""
