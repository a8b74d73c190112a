from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.edge.rate_limited_log import LINE_EVERY_S, RateLimitedLog
from tests.support.virtual_time import run

if TYPE_CHECKING:
    import pytest


def log() -> RateLimitedLog:
    return RateLimitedLog(logging.getLogger("sluice.test"))


def test_the_first_is_a_line_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        log().warning("10.0.0.9:1: 100 % refused", "refusals")

    run(scenario())
    assert caplog.messages == ["10.0.0.9:1: 100 % refused"]


def test_a_flood_is_a_line_a_second_and_none_of_it_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        flooded = log()
        for number in range(2500):
            flooded.warning(f"{number} refused", f"refusals, the last of {number}")
            await asyncio.sleep(LINE_EVERY_S / 1000)
        await asyncio.sleep(2 * LINE_EVERY_S)

    run(scenario())
    first, *summaries = caplog.messages
    assert first == "0 refused"
    assert 2 <= len(summaries) <= 3
    assert 1 + sum(int(line.split()[0]) for line in summaries) == 2500
    assert summaries[-1].endswith("more refusals, the last of 2499")


def test_after_a_quiet_second_the_next_is_a_line_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        quiet = log()
        for who in ("a", "b", "c"):
            quiet.warning(f"{who}: refused", "refusals")
            await asyncio.sleep(2 * LINE_EVERY_S)

    run(scenario())
    assert [line.split(":")[0] for line in caplog.messages] == ["a", "b", "c"]
