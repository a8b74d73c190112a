"""Who works, what they said last, and what those who have ended have counted.

A worker that is killed takes with it what it has counted since it was last asked, a second at most;
what it had told before stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from proxy.telemetry import declarations
from proxy.telemetry.families import Family, Figure, lasting
from proxy.telemetry.families import together as pages_together
from proxy.telemetry.instruments import Distribution
from proxy.telemetry.totals import Totals
from proxy.workers import together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.snapshot import AdmissionSnapshot
    from proxy.workers.changes import Changes
    from proxy.workers.report import WorkerReport

_log = logging.getLogger("sluice.workers")

# Probes of readiness are given a second, and wait for this one.
_ANSWERS_WITHIN_S = 0.5


class Member(Protocol):
    """A worker that runs. `latest` is None until it serves."""

    @property
    def pid(self) -> int: ...

    @property
    def latest(self) -> WorkerReport | None: ...

    async def ask(self, within_s: float) -> bool:
        """Brings `latest` up to date; False when it does not answer in time."""
        ...

    def change(self, changes: Changes) -> None:
        """Passes them on; it has adopted them when it next answers."""
        ...


class Roster:
    """`own_page`: what the parent says of itself."""

    def __init__(self, own_page: Callable[[], tuple[Family, ...]]) -> None:
        self.stopping = False
        """The gateway was told to end."""
        self.paused = False
        """It drains for a while, which can be taken back."""
        self._changes: Changes | None = None
        self._own_page = own_page
        self._members: dict[int, Member] = {}
        self._starts: Counter[int] = Counter()
        self._silent: set[int] = set()
        self._lost = 0
        self._page_of_the_gone: tuple[Family, ...] = ()
        waits = Distribution(declarations.DURATION_BOUNDS_S).snapshot()
        self._totals_of_the_gone = Totals(0, 0, 0, {}, waits)

    def join(self, number: int, member: Member) -> None:
        self._members[number] = member
        self._starts[number] += 1
        if self._changes is not None:
            member.change(self._changes)

    def leave(self, number: int, *, lost: bool) -> None:
        """It has ended; `lost`: not because it was told to."""
        last = self._members.pop(number).latest
        self._silent.discard(number)
        self._lost += lost
        if last is not None:
            self._page_of_the_gone = pages_together([self._page_of_the_gone, lasting(last.page)])
            self._totals_of_the_gone = together.totals([self._totals_of_the_gone, last.totals])

    @property
    def draining(self) -> bool:
        return self.stopping or self.paused

    def change(self, changes: Changes) -> None:
        """For all of them, also for those who come later."""
        self.paused, self._changes = changes.draining, changes
        for member in self._members.values():
            member.change(changes)

    def serves(self, number: int) -> bool:
        """Whether the worker of this number is there and has said that it serves."""
        return number in self._by_number()

    async def refresh(self) -> None:
        """All reports are from after the call, but for those who do not answer in time."""
        asked = [self._ask(*one) for one in self._members.items() if one[1].latest is not None]
        await asyncio.gather(*asked)

    async def _ask(self, number: int, member: Member) -> None:
        has_answered = await member.ask(_ANSWERS_WITHIN_S)
        if self._members.get(number) is not member:
            return
        if has_answered:
            self._silent.discard(number)
        elif number not in self._silent:
            self._silent.add(number)
            _log.warning(
                "worker %d (process %d) does not answer: stopped, or with no time for itself; "
                "shown as it was when it last did",
                number,
                member.pid,
            )

    @property
    def reports(self) -> list[WorkerReport]:
        """Of those who serve, in the order of their numbers."""
        return list(self._by_number().values())

    @property
    def answering(self) -> list[WorkerReport]:
        """Of those among them who answered when they were asked last."""
        return [told for number, told in self._by_number().items() if number not in self._silent]

    def has_seats(self) -> bool:
        """Whether somebody who answers has seats to give out, now or when the drain is taken back.

        One that drains on its own is about to go, and takes nothing new.
        """
        return any(
            told.admission.limit > 0 and (self.paused or not told.admission.draining)
            for told in self.answering
        )

    def page(self) -> tuple[Family, ...]:
        """The metrics of the gateway as a whole."""
        pages = [report.page for report in self.reports]
        return pages_together(
            [*pages, self._page_of_the_gone, self._own_page(), self._head_count()]
        )

    def totals(self) -> Totals:
        return together.totals(
            [self._totals_of_the_gone, *(report.totals for report in self.reports)]
        )

    def workers(self) -> list[dict[str, object]]:
        """For /status.json: everyone who was ever started, also while there is nobody in his place.

        What is not known is None: of one that does not serve yet, or has just died.
        """
        return [self._worker(number) for number in sorted(self._starts)]

    def _worker(self, number: int) -> dict[str, object]:
        member = self._members.get(number)
        admission = told.admission if member and (told := member.latest) else None
        return {
            "number": number,
            "pid": member and member.pid,
            "state": self._state(number, admission),
            "in_flight": admission and admission.in_flight,
            "queue_depth": admission and admission.queue_depth,
            "draining": bool(admission and admission.draining),
            "restarts": self._starts[number] - 1,
        }

    def _state(self, number: int, admission: AdmissionSnapshot | None) -> str:
        if admission is None:
            return "starting"
        if number in self._silent:
            return "silent"
        return "draining" if admission.draining else "serving"

    def _by_number(self) -> Mapping[int, WorkerReport]:
        return {
            number: member.latest
            for number, member in sorted(self._members.items())
            if member.latest is not None
        }

    def _head_count(self) -> tuple[Family, ...]:
        serving, lost = declarations.WORKERS, declarations.WORKERS_LOST
        return (
            _gauge(serving, len(self.answering)),
            _gauge(declarations.DRAINING, self.draining),
            Family(
                lost.name.removesuffix("_total"),
                "counter",
                lost.help,
                (Figure(lost.name, {}, self._lost),),
            ),
        )


def _gauge(declared: declarations.Gauge, value: float) -> Family:
    return Family(declared.name, "gauge", declared.help, (Figure(declared.name, {}, value),))
