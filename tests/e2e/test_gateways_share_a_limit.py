"""Four gateways, one engine, one limit, a real Redis; and what may befall them.

`make chaos` runs the second test at full size: 2,000 clients for five minutes. SLUICE_TEST_CHAOS_S,
SLUICE_TEST_CLIENTS and SLUICE_TEST_SEED change that.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.support.chaos import ENOUGH, KILLED_S, Chaos
from tests.support.sharing_cluster import LIMIT, sharing_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.support.sharing_cluster import Cluster

    Play = Callable[[Callable[[Cluster], Awaitable[None]]], None]

GATEWAYS = 4
CLIENTS = int(os.environ.get("SLUICE_TEST_CLIENTS", "80"))
CHAOS_S = float(os.environ.get("SLUICE_TEST_CHAOS_S", "18"))
# In a long run there is time to see how long each trouble lasts.
IS_LONG = CHAOS_S >= 120
PAUSE_S = (2.0, 12.0) if IS_LONG else (0.5, 3.0)
SEED = int(os.environ.get("SLUICE_TEST_SEED", "6"))

pytestmark = [
    pytest.mark.alone("processes are killed and stopped, and seconds are counted"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Plays a scenario on a cluster that is whole, and looks at what the engine has had at once."""
    directory = tmp_path_factory.mktemp("redis")
    with asyncio.Runner() as runner:
        made = sharing_cluster(directory, GATEWAYS, CLIENTS)
        cluster = runner.run(made.__aenter__())

        def play(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
            async def main() -> None:
                await cluster.restore(GATEWAYS)
                await scenario(cluster)
                assert cluster.engine.peak <= LIMIT

            runner.run(main())

        try:
            yield play
        finally:
            runner.run(made.__aexit__(None, None, None))


async def all_seats_are_used(cluster: Cluster, seconds: float) -> None:
    """What the engine sees of it has to do with how fast the machine is."""
    use = await cluster.use(seconds)
    assert use.granted >= ENOUGH, use
    assert use.in_engine >= 0.9 * LIMIT, use


@pytest.mark.timeout(60)
def test_all_seats_are_used_and_those_of_a_killed_gateway_are_back_within_6_seconds(
    play: Play,
) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load()
        await made.until_used(LIMIT, within_s=8)
        await all_seats_are_used(made, 3)
        await made.kill(made.members[0])
        await made.until_used(LIMIT, within_s=KILLED_S)
        await all_seats_are_used(made, 2)
        # All of them at one gateway, which the others leave their seats to.
        await made.end_load()
        made.begin_load(made.members[0])
        await made.until_used(LIMIT, within_s=3)
        await all_seats_are_used(made, 2)

    play(scenario)


@pytest.mark.timeout(CHAOS_S + 150)
def test_whatever_is_killed_stopped_cut_off_and_restarted_the_limit_holds(
    play: Play, record_property: Callable[[str, object], None]
) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load()
        await made.until_used(LIMIT, within_s=8)
        chaos = Chaos(made, random.Random(SEED), PAUSE_S)
        await chaos.rage(CHAOS_S)
        served = made.served
        await made.until_used(LIMIT, within_s=20)
        await all_seats_are_used(made, 3)
        assert made.served > served
        record_property("chaos", f"{chaos.record}")
        print(f"\n{chaos.record}\nserved {made.served}, peak {made.engine.peak}")  # noqa: T201
        if IS_LONG:
            assert chaos.record.use_outside_windows() >= 0.95
            assert max(chaos.record.back_after_kills()) <= KILLED_S

    play(scenario)


@pytest.mark.timeout(60)
def test_without_the_store_traffic_goes_on_and_metrics_and_log_say_so(play: Play) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load()
        await made.until_used(LIMIT, within_s=8)
        made.redis.stop()
        one = made.members[0].gateway
        await one.until_metric("sluice_store_up", 0)
        await asyncio.sleep(4)
        assert (await made.use(2)).granted >= 0.8 * LIMIT
        assert any("the store of the shared limit is lost" in line for line in one.log)
        made.redis.start()
        await one.until_metric("sluice_store_up", 1)
        await one.until_metric("sluice_gateways", GATEWAYS)
        await made.until_used(LIMIT, within_s=8)

    play(scenario)
