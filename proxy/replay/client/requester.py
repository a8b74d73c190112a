"""One request of an application, however many tries it takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.replay.client.attempt import Attempt
from proxy.replay.outcome import Fate, RequestRecord
from proxy.upstream.port import UpstreamRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from proxy.replay.arrival import Arrival
    from proxy.replay.client.retry_rules import ClientProfile
    from proxy.replay.client.tally import Tally
    from proxy.replay.synthetic.distribution import Distribution
    from proxy.upstream.port import RawHeaders, Upstream

_OVERLOAD_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Patience:
    """How an application waits: `timeout_s` for the head of an answer and between two pieces of
    it, as the SDKs do; `abandon_after` for all of it, tries and waits included, if at all."""

    profile: ClientProfile
    timeout_s: float = 600.0
    max_retries: int = 2
    abandon_after: Distribution | None = None


class Requester:
    """`body_of` writes the request of an arrival, given which one it is of the schedule. `clock`
    gives seconds since the start of the replay, `wall_clock` Unix time."""

    def __init__(
        self,
        upstream: Upstream,
        target: bytes,
        headers: RawHeaders,
        body_of: Callable[[Arrival, int], bytes],
        patience: Patience,
        tally: Tally,
        rng: random.Random,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._upstream = upstream
        self._target = target
        self._headers = headers
        self._body_of = body_of
        self._patience = patience
        self._tally = tally
        self._rng = rng
        self._clock = clock
        self._wall_clock = wall_clock

    async def ask(self, arrival: Arrival, number: int) -> RequestRecord:
        """Never raises for a request that fails."""
        self._tally.started()
        attempts: list[Attempt] = []
        try:
            async with asyncio.timeout(self._leaves_after_s(arrival)):
                await self._try_until_done(arrival, number, attempts)
        except TimeoutError:
            record = self._record(arrival, attempts, Fate.ABANDONED, self._clock())
        except BaseException:
            self._tally.cut_off()
            raise
        else:
            last = attempts[-1]
            record = self._record(arrival, attempts, _fate(last), last.ended_s)
        self._tally.ended(record, _prompt_tokens(attempts))
        return record

    def _leaves_after_s(self, arrival: Arrival) -> float | None:
        """From now on; a generator that is late does not make clients more patient."""
        abandon_after = self._patience.abandon_after
        if abandon_after is None:
            return None
        late_s = self._clock() - arrival.at_s
        return max(abandon_after.draw(self._rng) - late_s, 0.001)

    async def _try_until_done(self, arrival: Arrival, number: int, attempts: list[Attempt]) -> None:
        body = self._body_of(arrival, number)
        while True:
            attempt = Attempt(self._clock, arrival.sequences)
            attempts.append(attempt)
            await attempt.run(self._upstream, self._request(body, len(attempts) - 1))
            delay_s = self._delay_s(attempt, len(attempts) - 1)
            if delay_s is None:
                return
            attempt.retry_after_s = delay_s
            await asyncio.sleep(delay_s)
            self._tally.retried()

    def _request(self, body: bytes, retries: int) -> UpstreamRequest:
        patience = self._patience
        said = patience.profile.headers(retries, patience.timeout_s)
        return UpstreamRequest("POST", self._target, self._headers + said, body)

    def _delay_s(self, attempt: Attempt, retries: int) -> float | None:
        """None when it has its answer, or does not come back. Nothing is tried again once an
        answer has begun."""
        if attempt.has_head or retries >= self._patience.max_retries:
            return None
        if 200 <= attempt.status < 400:
            return None
        return self._patience.profile.delay_s(
            attempt.status, attempt.headers, retries, self._rng, self._wall_clock()
        )

    def _record(
        self, arrival: Arrival, attempts: list[Attempt], fate: Fate, ended_s: float
    ) -> RequestRecord:
        answer = attempts[-1].answer if attempts else None
        times = None if answer is None else answer.token_times
        return RequestRecord(
            arrived_s=arrival.at_s,
            prompt_tokens=arrival.prompt_tokens,
            output_tokens_wanted=arrival.output_tokens,
            tries=tuple(attempt.record() for attempt in attempts),
            first_token_s=times[0] if times else None,
            ended_s=ended_s,
            output_tokens=0 if answer is None else answer.output_tokens,
            token_times=times,
            fate=fate,
            sequences=arrival.sequences,
        )


def _fate(last: Attempt) -> Fate:
    if 200 <= last.status < 300:
        return Fate.COMPLETED
    return Fate.SHED if last.status in _OVERLOAD_STATUSES else Fate.FAILED


def _prompt_tokens(attempts: list[Attempt]) -> int | None:
    answer = attempts[-1].answer if attempts else None
    return None if answer is None else answer.prompt_tokens
