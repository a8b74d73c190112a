"""A try is written down, however it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.replay.client.attempt import Attempt
from proxy.upstream.errors import UpstreamClosedError
from proxy.upstream.port import UpstreamRequest
from tests.support.replay_upstream import ROLE, Scripted, in_turn, refusal, word
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from tests.support.replay_upstream import ScriptedPort

REQUEST = UpstreamRequest("POST", b"/v1/chat/completions", [], b"{}")


def _tried(upstream: ScriptedPort) -> Attempt:
    async def scenario() -> Attempt:
        attempt = Attempt(now)
        await attempt.run(upstream, REQUEST)
        return attempt

    return run(scenario())


def test_a_whole_answer() -> None:
    record = _tried(in_turn(Scripted(wait_s=2.0, gap_s=1.0))).record()
    assert (record.began_s, record.status, record.first_byte_s, record.ended_s) == (0, 200, 3, 8)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refusal(503, "queue_full"), "queue_full"),
        (refusal(503, "other", x_sluice_reason="queue_timeout"), "queue_timeout"),
        (refusal(503, 503), None),
        (Scripted(503, [], [b"no JSON"]), None),
    ],
)
def test_a_refusal_has_its_status_and_a_reason_if_it_tells_one(
    answer: Scripted, code: str | None
) -> None:
    record = _tried(in_turn(answer)).record()
    assert (record.status, record.refusal_code) == (503, code)


def test_no_connection_and_a_stream_that_breaks_have_no_status() -> None:
    assert _tried(in_turn(None)).record().status == 0
    broken = Scripted(pieces=[ROLE, word()], error=UpstreamClosedError("gone"))
    attempt = _tried(in_turn(broken))
    assert (attempt.record().status, attempt.has_head) == (0, True)


def test_one_that_is_cancelled_knows_when_it_ended() -> None:
    async def scenario() -> Attempt:
        attempt = Attempt(now)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await attempt.run(in_turn(Scripted(wait_s=60)), REQUEST)
        return attempt

    assert run(scenario()).ended_s == 5.0
