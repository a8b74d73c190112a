"""Clients that come whether or not others were served, and retry as their libraries do."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from proxy.replay.client.retry_rules import PROFILES
from tests.bench.storm.exchange import TOKENS, completion_request, exchange

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from tests.bench.storm.exchange import Answer

TRY_TIMEOUT_S = 10.0
# Within it, counted from the first try, an answer is good.
GOOD_WITHIN_S = 10.0
# The routers answer 408 to who has waited too long.
_REFUSALS = frozenset({408, 429, 503})


@dataclass(frozen=True)
class Manner:
    """How clients take a refusal. `heeds_should_retry`: the header `x-should-retry` is obeyed."""

    name: str
    max_retries: int
    heeds_should_retry: bool = True

    def delay_s(self, answer: Answer, retries: int, rng: random.Random) -> float | None:
        """How long such a client waits before it comes back; None when it does not."""
        if retries >= self.max_retries:
            return None
        heard = self._heard(answer.headers)
        return _LIBRARY.delay_s(answer.status, heard, retries, rng, time.time())

    def _heard(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if self.heeds_should_retry:
            return headers
        return {name: value for name, value in headers.items() if name != "x-should-retry"}


_LIBRARY = PROFILES["openai-python"]
SDK = Manner("the OpenAI SDK", max_retries=2)
DEAF = Manner("deaf to x-should-retry", max_retries=2, heeds_should_retry=False)
ONCE = Manner("never retry", max_retries=0)
MANNERS = (SDK, DEAF, ONCE)


@dataclass(frozen=True, slots=True)
class Served:
    """A request that got its whole answer; times are of the loop's clock, or durations.

    `first_byte_s` counts from the first try, `own_first_byte_s` from the try that was answered.
    """

    ended_at: float
    took_s: float
    first_byte_s: float
    own_first_byte_s: float

    @property
    def is_good(self) -> bool:
        return self.took_s <= GOOD_WITHIN_S


@dataclass
class Tally:
    """What became of the requests of one storm. `ends` counts tries, by how they ended."""

    offered: int = 0
    tries: int = 0
    served: list[Served] = field(default_factory=list)
    refusals_s: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    def good_moments(self) -> list[float]:
        return [one.ended_at for one in self.served if one.is_good]

    def note_try(self, answer: Answer) -> None:
        reason = answer.headers.get("x-sluice-reason", "")
        self.ends[f"{answer.status or 'no answer'} {reason}".strip()] += 1
        if answer.status in _REFUSALS:
            self.refusals_s.append(answer.whole_s)


async def ask(port: int, manner: Manner, rng: random.Random, tally: Tally) -> None:
    """One request, however many tries it takes."""
    loop = asyncio.get_running_loop()
    arrived_at = loop.time()
    tally.offered += 1
    for retries in range(manner.max_retries + 1):
        tally.tries += 1
        began_at = loop.time()
        answer = await exchange(port, _REQUESTS[retries], TRY_TIMEOUT_S)
        tally.note_try(answer)
        if answer.status == 200:
            ended_at = loop.time()
            waited_s = began_at - arrived_at
            tally.served.append(
                Served(
                    ended_at,
                    ended_at - arrived_at,
                    waited_s + answer.first_byte_s,
                    answer.first_byte_s,
                )
            )
            return
        delay_s = manner.delay_s(answer, retries, rng)
        if delay_s is None:
            return
        await asyncio.sleep(delay_s)


def _request(retries: int) -> bytes:
    headers = {
        "x-stainless-retry-count": str(retries),
        "x-stainless-read-timeout": f"{TRY_TIMEOUT_S:g}",
    }
    return completion_request(TOKENS, headers)


# Built once: in a storm they are sent hundreds of times a second.
_REQUESTS = tuple(_request(retries) for retries in range(1 + max(m.max_retries for m in MANNERS)))


class Crowd:
    """The requests under way. Leaving the block drops those that are left."""

    def __init__(self, port: int, manner: Manner, rng: random.Random) -> None:
        self.tally = Tally()
        self._port, self._manner, self._rng = port, manner, rng
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def arrive(self, per_s: float, seconds: float) -> None:
        """Lets requests arrive by a Poisson process; returns when the last one has come."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        arrives_at = loop.time() + self._rng.expovariate(per_s)
        while arrives_at < ends_at:
            await asyncio.sleep(max(0.0, arrives_at - loop.time()))
            task = asyncio.create_task(ask(self._port, self._manner, self._rng, self.tally))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            arrives_at += self._rng.expovariate(per_s)
        await asyncio.sleep(max(0.0, ends_at - loop.time()))

    async def until_gone(self, within_s: float) -> int:
        """Waits until everybody was answered or has given up; how many are left by then."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        return len(self._tasks)
