"""Each invariant, broken once, is told; a page on which all of them hold is not."""

from __future__ import annotations

import asyncio

import pytest

from proxy.simulator.faults import Stall
from tests.soak.asked import ROUTES
from tests.soak.invariants import MOMENT_LOOKS, READ_OUT_OF_ORDER, Bounds, Invariants
from tests.soak.pages import LOAD_PATH, Sample, read_engine, read_gateway
from tests.support.simulated_server import simulated
from tests.support.virtual_time import run, settle

BOUNDS = Bounds(limit=4, places=3, connections=10)
HELD = {"prompt": "hello", "max_tokens": 4000, "ignore_eos": True, "stream": True}
RUNNING = 'vllm:num_requests_running{engine="0",model_name="simulated"}'


def page(
    *, in_flight: int = 4, queued: int = 2, ended: int = 10, arrivals: int = 16, extra: str = ""
) -> Sample:
    """Of two engines, one of which has nothing to do. The open routes' requests do not count."""
    text = f"""# HELP sluice_in_flight Seats taken.
sluice_in_flight{{upstream="http://one"}} {in_flight}
sluice_in_flight{{upstream="http://two"}} 0
sluice_queue_depth {queued}.0
sluice_arrivals_total{{attempt="first"}} {arrivals}
sluice_arrivals_total{{attempt="retry"}} 0
sluice_requests_total{{outcome="ok",route="completions"}} {ended - 1}
sluice_requests_total{{outcome="shed",route="chat_completions"}} 1
sluice_requests_total{{outcome="ok",route="models"}} 7
{extra}
"""
    return read_gateway(text, ROUTES)


def seen(*samples: Sample) -> Invariants:
    invariants = Invariants(BOUNDS)
    for sample in samples:
        invariants.see(sample)
    return invariants


def test_a_page_is_read_as_it_is() -> None:
    sample = page()
    assert sample.in_flight == {"http://one": 4, "http://two": 0}
    assert (sample.queued, sample.arrivals, sample.ended) == (2, 16, 10)
    assert sample.outcomes() == {"ok": 16, "shed": 1}


def test_all_hold() -> None:
    invariants = seen(page(), page(ended=12, arrivals=20))
    assert not invariants.broken
    assert (invariants.samples, invariants.most_on_its_way) == (2, 2)


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        ([page(in_flight=5, arrivals=17)], "in flight is within the limit"),
        ([page(queued=4, arrivals=18)], "the queue is within its depth"),
        ([page(ended=11)], "every request is somewhere, once"),
        ([page(arrivals=27)], "every request is somewhere, once"),
        ([page(extra="sluice_draining -1")], "a gauge is not negative"),
        ([page(), page(ended=9)], "counters do not fall"),
        ([page(extra="sluice_x_total 1"), page()], "counters do not fall"),
    ],
)
def test_what_is_broken_is_told(samples: list[Sample], what: str) -> None:
    invariants = seen(*samples)
    assert dict(invariants.broken) == {what: 1}
    assert invariants.examples[0].startswith(what)


def test_an_engine_may_know_of_a_few_more_for_a_moment_only() -> None:
    invariants = Invariants(BOUNDS)
    for _ in range(MOMENT_LOOKS):
        invariants.see_engine("one", BOUNDS.limit + 1)
    invariants.see_engine("one", BOUNDS.limit)
    assert not invariants.broken
    for _ in range(MOMENT_LOOKS + 1):
        invariants.see_engine("one", BOUNDS.limit + 1)
    assert invariants.broken.total() == 1


def test_an_engine_never_knows_of_many_more() -> None:
    invariants = Invariants(BOUNDS)
    invariants.see_engine("one", BOUNDS.limit + READ_OUT_OF_ORDER + 1)
    assert invariants.broken.total() == 1


def test_what_a_stuck_engine_has_is_told_also_when_its_metrics_stand_still() -> None:
    """A look that says for seconds what was so for a moment would be taken for a lost seat."""

    async def scenario() -> None:
        async with simulated(enable_server_load_tracking=True) as server:
            asking = [server.start(b"/v1/completions", HELD) for _ in range(3)]
            await settle()
            server.engine.inject(Stall())
            assert read_engine((await server.get(LOAD_PATH.encode())).body.decode()) == 3
            asking.pop().disconnect()
            await asyncio.sleep(1)
            assert read_engine((await server.get(LOAD_PATH.encode())).body.decode()) == 2
            assert await server.metric(RUNNING) == 3
            for one in asking:
                one.disconnect()

    run(scenario())
