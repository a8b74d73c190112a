"""The closed loop and the probes, against a server that takes its time."""

from __future__ import annotations

import asyncio

import pytest

from tests.bench.processes import NotMeasuredError
from tests.bench.storm import closed_loop as module
from tests.bench.storm.closed_loop import Reference, closed_loop
from tests.bench.storm.recovery import Recovery, until_normal
from tests.bench.storm.stub_server import head_only, stub_server


def test_the_loop_measures_what_the_engine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RAMP_S", 0.1)

    async def measured() -> Reference:
        async with stub_server(lambda: [head_only(200)], pause_s=0.05) as port:
            return await closed_loop(port, clients=4, seconds=0.5)

    reference = asyncio.run(measured())
    assert 40 < reference.per_s <= 80
    assert reference.first_byte_s > 0.05


def test_a_loop_that_is_refused_is_no_reference() -> None:
    async def measured() -> Reference:
        async with stub_server(lambda: [head_only(503)]) as port:
            return await closed_loop(port, clients=2, seconds=0.1)

    with pytest.raises(NotMeasuredError, match="answers 503"):
        asyncio.run(measured())


async def _recovery(statuses: list[int], within_s: float, takes_s: float = 0.0) -> Recovery:
    async with stub_server(lambda: [head_only(statuses.pop(0))], takes_s) as port:
        return await until_normal(port, within_s)


def test_normal_is_when_the_first_of_three_in_a_row_was_sent() -> None:
    recovery = asyncio.run(_recovery([503, 200, 503, 200, 200, 200], within_s=5.0))
    assert 0.7 < recovery.after_s < 1.2
    assert recovery.answers == 4


def test_a_slow_answer_is_not_at_once() -> None:
    recovery = asyncio.run(_recovery([200] * 3, within_s=1.0, takes_s=0.6))
    assert recovery == Recovery(1.0, 2)
