"""A fleet of gateways and engines in virtual time: prints what came of it, and writes the plots of
docs/scaling.md.

python -m tests.bench.fleet TRACE [--only GROUP]... [--results FILE] [--plots DIRECTORY]
python -m tests.bench.fleet --costs

TRACE is any file that `sluice replay` reads. --plots draws from what is in FILE, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.replay.traces.read import read_trace
from tests.bench.fleet.load import pattern_of
from tests.bench.fleet.measure_costs import measure
from tests.bench.fleet.plans import jobs
from tests.bench.fleet.plots import plots
from tests.bench.fleet.simulation import simulate

if TYPE_CHECKING:
    from tests.bench.fleet.plans import Job
    from tests.bench.fleet.simulation import Outcome


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE")
    parser.add_argument("--only", action="append", metavar="GROUP", help="some of the plans")
    parser.add_argument("--results", type=Path, help="a line of JSON for each plan is added there")
    parser.add_argument("--plots", type=Path, help="draw them from the results")
    parser.add_argument("--costs", action="store_true", help="measure a real Redis instead")
    arguments = parser.parse_args()
    if not (arguments.costs or arguments.trace or (arguments.plots and arguments.results)):
        parser.error("TRACE, --costs, or --plots with --results")
    return arguments


def main() -> None:
    arguments = _arguments()
    logging.getLogger("sluice").setLevel(logging.ERROR)
    if arguments.costs:
        for line in measure():
            print(line, flush=True)
    elif arguments.plots:
        _draw(arguments.results, arguments.plots)
    else:
        _run(arguments.trace, arguments.only, arguments.results)


def _run(trace: Path, only: list[str] | None, results: Path | None) -> None:
    pattern = pattern_of(read_trace(trace).arrivals)
    for job in jobs():
        if only is None or job.group in only:
            outcome = simulate(job.plan, pattern)
            print(_line(job, outcome), flush=True)
            if results is not None:
                with results.open("a") as file:
                    file.write(json.dumps(_record(job, outcome)) + "\n")


def _record(job: Job, outcome: Outcome) -> dict[str, Any]:
    plan = job.plan
    fleet = {"gateways": plan.gateways, "engines": plan.engines, "seats": plan.seats}
    return {"group": job.group, "name": job.name, **fleet, **asdict(outcome)}


def _draw(results: Path, directory: Path) -> None:
    records = [json.loads(line) for line in results.read_text().splitlines()]
    directory.mkdir(exist_ok=True)
    for name, svg in plots(records):
        (directory / f"scaling-{name}.svg").write_text(svg)


def _line(job: Job, got: Outcome) -> str:
    """A row of a table in Markdown."""
    worst_admitted, best_admitted = got.gateway_admitted
    best_s, worst_s = got.gateway_p99_s
    cells = (
        job.name,
        f"{got.requests:,}",
        f"{got.admitted_share:.1%}",
        f"{got.mean_taken:.1%}",
        f"{got.waiting_part:.0%}",
        f"{got.utilization:.1%}",
        f"{got.parked:.1%}",
        f"{got.wait_p50_s:.2f}",
        f"{got.wait_p99_s:.2f}",
        f"{best_s:.2f} to {worst_s:.2f}",
        f"{worst_admitted:.0%} to {best_admitted:.0%}",
        f"{got.fairness:.3f}",
        f"{got.round_trips_per_s:,.0f}",
        f"{got.renewals_per_s:,.0f}",
        f"{got.store_load:.0%}",
        f"{got.gateway_load:.1%}",
        f"{got.timeouts}",
        f"{got.most_in_one}",
        f"{got.took_s:.0f} s",
        f"{got.events_per_s:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
