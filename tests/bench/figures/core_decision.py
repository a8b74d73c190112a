"""What one decision of the core takes, with few and with very many waiting.

    python -m tests.bench.figures.core_decision WAITING

runs on the interpreter under test and prints one JSON object, in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

import uvloop

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.gate import Gate
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.permit import Permit
from proxy.admission.request import AdmissionRequest
from proxy.admission.waiter import Waiter
from tests.bench.contenders import SLUICE, SLUICE_OTHER
from tests.bench.figure import Column, Figure
from tests.bench.processes import NotMeasuredError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

_SEATS = 64
_BATCH = 8  # below the smaller of the two depths, so that a batch hardly changes it
_BATCHES = 2_000
_DEADLINE_S = 3_600.0
_FEW, _MANY = 10, 100_000


class _Silent:
    """Hears and forgets, so that the decision alone is measured."""

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None: ...
    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None: ...
    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None: ...
    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None: ...
    def released(self, permit: Permit, ending: Ending) -> None: ...
    def would_shed(self, reason: Reason) -> None: ...


async def _decisions(waiting: int) -> dict[str, float]:
    """Microseconds, the median of batches: joining, handing a seat on, leaving."""
    loop = asyncio.get_running_loop()
    limits = {"engine": FixedLimit(_SEATS)}
    gate = Gate(limits, waiting + _BATCH, loop.time, _Silent(), Fifo[Waiter]())

    def join() -> Permit | Waiter | Rejected:
        return gate.decide(AdmissionRequest(seats=1, deadline=loop.time() + _DEADLINE_S))

    held = deque(_permit(join()) for _ in range(_SEATS))
    queue = deque(_waiter(join()) for _ in range(waiting))
    joins, handovers, departures = [], [], []
    for _ in range(_BATCHES):
        joined, took_us = _timed(join)
        joins.append(took_us)
        queue.extend(map(_waiter, joined))

        _, took_us = _timed(lambda: held.popleft().complete())
        handovers.append(took_us)
        held.extend(_permit(queue.popleft().result()) for _ in range(_BATCH))

        newest = [_waiter(join()) for _ in range(_BATCH)]
        _, took_us = _timed(lambda: newest.pop().cancel())  # noqa: B023 - called at once
        departures.append(took_us)
        await asyncio.sleep(0)
    for waiter in queue:
        waiter.cancel()
    return {
        "join": statistics.median(joins),
        "handover": statistics.median(handovers),
        "departure": statistics.median(departures),
    }


def _timed(step: Callable[[], object]) -> tuple[list[object], float]:
    """What the steps of a batch gave, and microseconds for each."""
    clock = time.perf_counter_ns
    began = clock()
    results = [step() for _ in range(_BATCH)]
    return results, (clock() - began) / _BATCH / 1e3


def _permit(decision: object) -> Permit:
    assert isinstance(decision, Permit)
    return decision


def _waiter(decision: object) -> Waiter:
    assert isinstance(decision, Waiter)
    return decision


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    python = bench.peers.sluice_python(contender.name.rpartition(" ")[2])
    few, many = [await _run(python, bench.cores.proxy, waiting) for waiting in (_FEW, _MANY)]
    slowest = max(few, key=lambda kind: many[kind] / few[kind])
    return {
        **{f"{kind}_us": many[kind] for kind in many},
        "decision_few_us": max(few.values()),
        "decision_many_us": max(many.values()),
        "decision_growth": many[slowest] / few[slowest],
    }


async def _run(python: str, core: int, waiting: int) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        *("taskset", "-c", str(core), python, "-m", "tests.bench.figures.core_decision"),
        str(waiting),
        env=clean_environment({}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise NotMeasuredError(errors.decode(errors="replace").strip().splitlines()[-1])
    decisions: dict[str, float] = json.loads(output)
    return decisions


FIGURE = Figure(
    name="core",
    title="One decision of the core",
    method=(
        f"In a process of its own, on uvloop, without HTTP: {_SEATS} seats taken, 10 or 100,000 "
        "requests waiting, each with a deadline. Joining the queue; ending a permit, which hands "
        "its seats to the head; leaving the queue from its end. The median over "
        f"{_BATCHES:,} batches of {_BATCH}; the slowest of the three is the figure, and growth is "
        "the largest of the three ratios of 100,000 to 10 waiting."
    ),
    columns=(
        Column("join_us", "join, us", digits=2, with_ratio=False),
        Column("handover_us", "hand over, us", digits=2, with_ratio=False),
        Column("departure_us", "leave, us", digits=2, with_ratio=False),
        Column("decision_few_us", "slowest, 10 waiting, us", digits=2, with_ratio=False),
        Column("decision_many_us", "slowest, 100,000 waiting, us", digits=2, with_ratio=False),
        Column("decision_growth", "growth", digits=2, with_ratio=False),
    ),
    contenders=(SLUICE, SLUICE_OTHER),
    measure=_measure,
)

if __name__ == "__main__":
    print(json.dumps(uvloop.run(_decisions(int(sys.argv[1])))))
