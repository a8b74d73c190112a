from __future__ import annotations

import asyncio

from proxy.edge.status.watch import StatusWatch
from tests.support.virtual_time import run


def test_a_sample_is_taken_every_second_until_the_end() -> None:
    async def scenario() -> None:
        samples: list[float] = []
        loop = asyncio.get_running_loop()
        began = loop.time()
        watch = StatusWatch(lambda: samples.append(loop.time() - began))
        watch.start()
        await asyncio.sleep(2.5)
        await watch.stop()
        await asyncio.sleep(5)
        assert samples == [0.0, 1.0, 2.0]

    run(scenario())


def test_one_that_was_never_started_can_be_stopped() -> None:
    run(StatusWatch(lambda: None).stop())
