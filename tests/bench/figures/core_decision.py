"""What one decision of the core takes, with few and with very many waiting.

    python -m tests.bench.figures.core_decision WAITING

runs on the interpreter under test and prints one JSON object, in microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import uvloop

from proxy.admission.controller import AdmissionController
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.request import AdmissionRequest
from tests.bench.contenders import SLUICE, SLUICE_OTHER
from tests.bench.figure import Column, Figure
from tests.bench.processes import NotMeasuredError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

S = TypeVar("S")
T = TypeVar("T")

_SEATS = 64
_BATCH = 8  # below the smaller of the two depths, so that a batch hardly changes it
_BATCHES = 5_000
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


class _Waiting(NamedTuple):
    """A request in the queue: the coroutine of its `async with`, and what that awaits.

    Driven by hand, for a task and a turn of the loop for each would be measured with it.
    """

    entering: Coroutine[object, object, Permit]
    future: asyncio.Future[object]

    def permit(self) -> Permit:
        """What it was given while it waited."""
        return _permit_of(self.entering)

    def forget(self) -> None:
        """After its future was cancelled: lets the coroutine end, too."""
        with contextlib.suppress(asyncio.CancelledError):
            self.entering.throw(asyncio.CancelledError)


def _permit_of(entering: Coroutine[object, object, Permit]) -> Permit:
    try:
        entering.send(None)
    except StopIteration as admitted:
        permit: Permit = admitted.value
        return permit
    raise AssertionError("was not admitted")


async def _decisions(waiting: int) -> dict[str, float]:
    """Microseconds, the median of batches: joining, handing a seat on, leaving."""
    loop = asyncio.get_running_loop()
    limits = {"engine": FixedLimit(_SEATS)}
    controller = AdmissionController(limits, waiting + _BATCH, loop.time, _Silent())

    def requests(count: int) -> list[AdmissionRequest]:
        deadline = loop.time() + _DEADLINE_S
        return [AdmissionRequest(seats=1, deadline=deadline) for _ in range(count)]

    def join(request: AdmissionRequest) -> _Waiting:
        entering = controller.admit(request).__aenter__()
        return _Waiting(entering, entering.send(None))

    held = deque(_permit_of(controller.admit(one).__aenter__()) for one in requests(_SEATS))
    queue = deque(map(join, requests(waiting)))
    joins, handovers, departures = [], [], []
    for _ in range(_BATCHES):
        joined, took_us = _timed(join, requests(_BATCH))
        joins.append(took_us)
        queue.extend(joined)

        ending = [held.popleft() for _ in range(_BATCH)]
        _, took_us = _timed(lambda permit: permit.complete(), ending)
        handovers.append(took_us)
        held.extend(queue.popleft().permit() for _ in range(_BATCH))

        newest = list(map(join, requests(_BATCH)))
        _, took_us = _timed(lambda one: one.future.cancel(), newest)
        departures.append(took_us)
        for one in newest:
            one.forget()
        await asyncio.sleep(0)
    for one in queue:
        one.future.cancel()
        one.forget()
    return {
        "join": statistics.median(joins),
        "handover": statistics.median(handovers),
        "departure": statistics.median(departures),
    }


def _timed(step: Callable[[S], T], batch: list[S]) -> tuple[list[T], float]:
    """What the steps of a batch gave, and microseconds for each."""
    clock = time.perf_counter_ns
    began = clock()
    results = [step(one) for one in batch]
    return results, (clock() - began) / len(batch) / 1e3


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
        "In a process of its own, on uvloop, without HTTP and metrics, through "
        f"`AdmissionController.admit()`: {_SEATS} seats taken, 10 or 100,000 "
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
