"""An open-loop storm of SDK-like clients: arrivals do not wait for answers."""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from proxy.replay.sdk_client import Patience, Story, ask

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

_UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=None)


@dataclass(frozen=True, slots=True)
class Storm:
    """`rate_per_s` requests arrive by a Poisson process for `duration_s` seconds."""

    path: str
    body: Mapping[str, object]
    rate_per_s: float
    duration_s: float
    patience: Patience


@dataclass(frozen=True, slots=True)
class StormSummary:
    """Counts of requests, not of tries. `good` were answered within the objective, `slo_s`, counted
    from their first try; `good_e2e_s` are the median and 99th percentile of their durations."""

    offered: int
    good: int
    late: int
    failed: int
    refused_tries: int
    tries_per_request: float
    good_per_s: float
    good_e2e_s: tuple[float, float] | None


async def run_storm(
    url: str, storm: Storm, rng: random.Random, progress: Callable[[int], None]
) -> list[Story]:
    """Every request's story, once the last client has its answer or has given up.

    `progress` hears how many requests have ended.
    """
    loop = asyncio.get_running_loop()
    stories: list[Story] = []

    async def one() -> None:
        stories.append(await ask(client, storm.path, storm.body, storm.patience, rng))
        progress(len(stories))

    async with (
        httpx.AsyncClient(
            base_url=url,
            limits=_UNLIMITED,
            timeout=None,  # noqa: S113 - each try has its own, as the SDK's has
            trust_env=False,
        ) as client,
        asyncio.TaskGroup() as clients,
    ):
        ends_at = loop.time() + storm.duration_s
        arrives_at = loop.time() + rng.expovariate(storm.rate_per_s)
        while arrives_at < ends_at:
            await asyncio.sleep(max(0.0, arrives_at - loop.time()))
            clients.create_task(one())
            arrives_at += rng.expovariate(storm.rate_per_s)
    return stories


def summarize(stories: Sequence[Story], duration_s: float, slo_s: float) -> StormSummary:
    """`duration_s` is how long requests arrived."""
    good = sorted(s.duration_s for s in stories if s.answered and s.duration_s <= slo_s)
    late = sum(s.answered and s.duration_s > slo_s for s in stories)
    tries = sum(s.tries for s in stories)
    return StormSummary(
        offered=len(stories),
        good=len(good),
        late=late,
        failed=len(stories) - len(good) - late,
        refused_tries=sum(s.refused_tries for s in stories),
        tries_per_request=tries / len(stories) if stories else 0.0,
        good_per_s=len(good) / duration_s,
        good_e2e_s=(statistics.median(good), good[int(len(good) * 0.99)]) if good else None,
    )
