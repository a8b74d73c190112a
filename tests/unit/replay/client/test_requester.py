"""A request is tried as its client would try it, and its fate is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.outcome import Fate
from proxy.replay.synthetic.distribution import Fixed
from proxy.upstream.errors import UpstreamClosedError, UpstreamTimeoutError
from tests.support.replay_upstream import (
    ROLE,
    Scripted,
    chat,
    in_turn,
    refusal,
    requester,
    word,
)
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from proxy.replay.outcome import RequestRecord
    from tests.support.replay_upstream import ScriptedPort


def _asked(upstream: ScriptedPort, **patience: Any) -> RequestRecord:  # noqa: ANN401 - as above
    async def scenario() -> RequestRecord:
        return await requester(upstream, **patience).ask(Arrival(0.0, 100, 3), 7)

    return run(scenario())


def test_a_refused_request_comes_back_and_each_try_says_which_it_is() -> None:
    upstream = in_turn(refusal(retry_after="7"), refusal(429), Scripted(gap_s=1.0))
    record = _asked(upstream)

    assert record.fate is Fate.COMPLETED
    assert [one.status for one in record.tries] == [503, 429, 200]
    assert record.tries[0].retry_after_s == 7.0
    assert record.tries[1].began_s == 7.0
    assert (record.output_tokens, record.prompt_tokens) == (3, 100)
    assert record.token_times is not None
    assert record.first_token_s == record.token_times[0]
    said = [dict(request.headers)[b"x-stainless-retry-count"] for request in upstream.seen]
    assert said == [b"0", b"1", b"2"]
    assert {bytes(request.body) for request in upstream.seen} == {b"100 7"}


@pytest.mark.parametrize(
    ("answers", "fate", "tries"),
    [
        ([refusal(), refusal(), refusal()], Fate.SHED, 3),
        ([refusal(x_should_retry="false")], Fate.SHED, 1),
        ([refusal(400)], Fate.FAILED, 1),
        ([None, None, None], Fate.FAILED, 3),
        ([Scripted(pieces=[ROLE, word()], error=UpstreamClosedError("x"))], Fate.FAILED, 1),
        ([Scripted(pieces=[], error=UpstreamTimeoutError("x"))], Fate.FAILED, 1),
    ],
)
def test_how_it_ends_when_it_is_not_answered(
    answers: list[Scripted | None], fate: Fate, tries: int
) -> None:
    record = _asked(in_turn(*answers))
    assert (record.fate, len(record.tries)) == (fate, tries)


def test_a_client_leaves_when_its_patience_ends_in_a_try_or_between_two() -> None:
    waiting = _asked(in_turn(Scripted(wait_s=60)), abandon_after=Fixed(5))
    between = _asked(in_turn(refusal(retry_after="60")), abandon_after=Fixed(5))
    assert [record.fate for record in (waiting, between)] == [Fate.ABANDONED] * 2
    assert [record.ended_s for record in (waiting, between)] == [5.0, 5.0]
    assert [len(record.tries) for record in (waiting, between)] == [1, 1]


def test_what_had_come_when_it_left_is_kept() -> None:
    record = _asked(in_turn(Scripted(pieces=chat(9), gap_s=1.0)), abandon_after=Fixed(4.5))
    assert (record.output_tokens, record.fate) == (3, Fate.ABANDONED)
