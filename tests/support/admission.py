"""Requests, an observer that remembers, and holders of permits, for tests around the core."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from proxy.admission.controller import AdmissionController
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.outcome import Evicted, Reason, Refused, Rejected
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.permit import Ending, Permit

UPSTREAM = "engine"


class MovableLimit:
    """A limit that the test moves by assigning to `seats`, up to `ceiling` if one is given. It is
    `shared` if others hold the rest up to there."""

    def __init__(self, seats: int, ceiling: int | None = None, *, shared: bool = False) -> None:
        self.seats = seats
        self._ceiling = ceiling
        self._shared = shared

    @property
    def ceiling(self) -> int:
        return self.seats if self._ceiling is None else self._ceiling

    @property
    def widest(self) -> int:
        return self.ceiling if self._shared else self.seats

    @property
    def held(self) -> int:
        return self.seats if self._shared else max(self.seats, self.ceiling)


class FirstOfTies(random.Random):
    """Dice that always fall on the first."""

    def random(self) -> float:
        return 0.0


class RecordingObserver:
    """Writes one line an event. A request is called by its tenant.

    `admitted a`, `rejected b queue_full`, `evicted c queue_timeout`, `abandoned d`,
    `released a complete`, `would_shed queue_full`; a request rejected before its body is `-`.
    """

    def __init__(self) -> None:
        self.log: list[str] = []

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        assert permit.request is request
        self.log.append(f"admitted {request.tenant}")

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        self.log.append(f"rejected {request.tenant if request else '-'} {rejection.reason}")

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        self.log.append(f"evicted {request.tenant} {eviction.reason}")

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        assert time_in_queue_s >= 0
        self.log.append(f"abandoned {request.tenant}")

    def released(self, permit: Permit, ending: Ending) -> None:
        self.log.append(f"released {permit.request.tenant} {ending}")

    def would_shed(self, reason: Reason) -> None:
        self.log.append(f"would_shed {reason}")

    def of(self, event: str) -> list[str]:
        """What followed the name of each such event."""
        return [line.partition(" ")[2] for line in self.log if line.split(" ")[0] == event]


class Holder:
    """A task that asks for a permit and keeps it until finish() or until it is cancelled.

    `permit` and `refusal` are None until then. Call it inside a running loop.
    """

    def __init__(self, controller: AdmissionController, request: AdmissionRequest) -> None:
        self.permit: Permit | None = None
        self.refusal: Refused | None = None
        self._done = asyncio.Event()
        self.task = asyncio.create_task(self._hold(controller, request), name=request.tenant)

    async def _hold(self, controller: AdmissionController, request: AdmissionRequest) -> None:
        try:
            async with controller.admit(request) as self.permit:
                await self._done.wait()
        except Refused as refusal:
            self.refusal = refusal

    @property
    def reason(self) -> Reason | None:
        return self.refusal.reason if self.refusal else None

    def finish(self) -> None:
        self._done.set()

    def cancel(self) -> None:
        self.task.cancel()


class Desk:
    """A controller with one upstream on the running loop's clock, its observer and its holders."""

    def __init__(
        self,
        limit: int = 1,
        max_queue_depth: int | Callable[[int], int] = 10,
        *,
        shadow: bool = False,
    ) -> None:
        self.limit = MovableLimit(limit)
        self.observer = RecordingObserver()
        self.loop = asyncio.get_running_loop()
        self.holders: list[Holder] = []
        self.controller = AdmissionController(
            {UPSTREAM: self.limit},
            max_queue_depth,
            self.loop.time,
            self.observer,
            shadow=shadow,
            new_placement=lambda: Roomiest(FirstOfTies()),
        )

    def request(
        self, name: str, seats: int = 1, wait_s: float = 5.0, model: str | None = None
    ) -> AdmissionRequest:
        return AdmissionRequest(seats, self.loop.time() + wait_s, tenant=name, model=model)

    async def arrive(
        self, name: str, seats: int = 1, wait_s: float = 5.0, model: str | None = None
    ) -> Holder:
        """A holder whose request has been decided on, or is waiting."""
        holder = Holder(self.controller, self.request(name, seats, wait_s, model))
        self.holders.append(holder)
        await turns()
        return holder

    async def close(self) -> None:
        """Lets everybody go, then checks that nothing stays taken."""
        for holder in self.holders:
            holder.cancel()
        await asyncio.gather(*(holder.task for holder in self.holders), return_exceptions=True)
        assert self.in_flight == 0
        assert self.queue_depth == 0

    @property
    def in_flight(self) -> int:
        return self.controller.snapshot().in_flight

    @property
    def queue_depth(self) -> int:
        return self.controller.snapshot().queue_depth


async def turns(count: int = 5) -> None:
    """Lets tasks that are ready run, on any event loop; no timer is waited for."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Waits for a state, on any event loop."""
    poll_s = 0.005
    for _ in range(round(within_s / poll_s)):
        if condition():
            return
        await asyncio.sleep(poll_s)
    raise AssertionError(f"not so within {within_s} s")


def one_upstream(seats: int) -> dict[str, FixedLimit]:
    return {UPSTREAM: FixedLimit(seats)}
