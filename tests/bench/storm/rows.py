"""The rows of the table: who comes, how many, and what stands in front of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench import contenders
from tests.bench.contenders import DIRECT, HAPROXY, SGLANG_ROUTER, VLLM_ROUTER, Limits
from tests.bench.storm.clients import DEAF, ONCE, SDK

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.bench.contenders import Contender
    from tests.bench.storm.clients import Manner

# As many wait as twice the seats and a few: two seconds of work, well within the queue timeout.
LIMITS = Limits(in_flight=7, waiting=16, queue_timeout_s=5)


@dataclass(frozen=True)
class Way:
    """`max_num_queued_reqs`: a flag of the engine, which counts those that run as well."""

    name: str
    contender: str
    max_num_queued_reqs: int | None = None

    def launched(self) -> Contender:
        return contenders.contenders()[self.contender]


NOTHING = Way("nothing", DIRECT)
SLUICE = Way("Sluice", contenders.SLUICE)
HAPROXY_WAY = Way("HAProxy", HAPROXY)
_QUEUED = LIMITS.in_flight + LIMITS.waiting
WAYS = (
    NOTHING,
    Way("vLLM's own flag", DIRECT, max_num_queued_reqs=_QUEUED),
    Way("vllm-router", VLLM_ROUTER),
    Way("sglang-router", SGLANG_ROUTER),
    HAPROXY_WAY,
    SLUICE,
)


@dataclass(frozen=True)
class Row:
    """`times`: how many times the rate of the closed loop is offered."""

    manner: Manner
    times: float
    way: Way

    @property
    def name(self) -> str:
        return f"{self.way.name}, {self.times:g} x, {self.manner.name}"


def rows(times: Sequence[float], only: Collection[str] | None = None) -> list[Row]:
    """`only`: names of ways.

    Nobody but Sluice sends x-should-retry, so that deaf clients differ there alone. Clients that
    never retry come at the lowest of the rates: what retries do to the others is seen there.
    """
    listed = [
        *(Row(SDK, one, way) for one in times for way in WAYS),
        *(Row(DEAF, one, SLUICE) for one in times),
        *(Row(ONCE, min(times), way) for way in WAYS),
    ]
    return [row for row in listed if not only or row.way.name in only]
