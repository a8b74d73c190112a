from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.edge.stranger_log import LINE_EVERY_S, StrangerLog
from tests.support.virtual_time import run

if TYPE_CHECKING:
    import pytest


def test_the_first_attempt_is_a_line_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        StrangerLog().note("10.0.0.9:1", "/admin/drain")

    run(scenario())
    assert caplog.messages == ["10.0.0.9:1: no valid token for /admin/drain"]


def test_a_flood_is_a_line_a_second_and_none_of_it_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        strangers = StrangerLog()
        for number in range(2500):
            strangers.note(f"10.0.0.9:{number}", "/admin/settings")
            await asyncio.sleep(LINE_EVERY_S / 1000)
        await asyncio.sleep(2 * LINE_EVERY_S)

    run(scenario())
    first, *summaries = caplog.messages
    assert first == "10.0.0.9:0: no valid token for /admin/settings"
    assert 2 <= len(summaries) <= 3
    assert 1 + sum(int(line.split()[0]) for line in summaries) == 2500
    assert summaries[-1].endswith("more attempts without a valid token, the last by 10.0.0.9:2499")


def test_after_a_quiet_second_the_next_is_a_line_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        strangers = StrangerLog()
        for who in ("a", "b", "c"):
            strangers.note(who, "/admin/drain")
            await asyncio.sleep(2 * LINE_EVERY_S)

    run(scenario())
    assert [line.split(":")[0] for line in caplog.messages] == ["a", "b", "c"]
