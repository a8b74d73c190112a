"""Arrivals do not wait for answers, and the summary counts requests, not tries."""

from __future__ import annotations

import asyncio
import random

import pytest

from proxy.replay.sdk_client import Patience, Story
from proxy.replay.storm import Storm, run_storm, summarize
from tests.support.scripted_upstream import Hold, ScriptedUpstream, json_answer


def _storm(duration_s: float, patience: Patience) -> Storm:
    return Storm("/v1/completions", {"prompt": "x"}, 100.0, duration_s, patience)


async def _stories(upstream: ScriptedUpstream, storm: Storm) -> list[Story]:
    async with upstream:
        return await run_storm(upstream.url, storm, random.Random(1), lambda _ended: None)


def test_requests_go_on_arriving_while_none_is_answered() -> None:

    upstream = ScriptedUpstream(Hold())
    stories = asyncio.run(_stories(upstream, _storm(0.5, Patience(timeout_s=1.0, max_retries=0))))

    assert upstream.peak == len(stories) > 20
    assert {story.status for story in stories} == {0}


def test_every_request_has_one_story() -> None:

    upstream = ScriptedUpstream(json_answer())
    stories = asyncio.run(_stories(upstream, _storm(0.5, Patience(timeout_s=5.0))))

    assert len(upstream.seen) == len(stories) > 20
    assert all(story.answered and story.tries == 1 for story in stories)


def test_the_summary_tells_good_from_late_from_failed() -> None:
    stories = [
        Story(200, 1, 0, 1.0),
        Story(200, 3, 2, 4.0),
        Story(200, 2, 1, 9.0),
        Story(503, 3, 3, 2.0),
        Story(0, 3, 0, 30.0),
    ]
    summary = summarize(stories, duration_s=2.0, slo_s=5.0)

    assert (summary.offered, summary.good, summary.late, summary.failed) == (5, 2, 1, 2)
    assert summary.tries_per_request == pytest.approx(12 / 5)
    assert summary.refused_tries == 6
    assert summary.good_per_s == pytest.approx(1.0)
    assert summary.good_e2e_s == (2.5, 4.0)


def test_without_a_good_answer_there_is_no_duration_to_tell() -> None:
    assert summarize([Story(503, 1, 1, 0.1)], 1.0, 5.0).good_e2e_s is None
    assert summarize([], 1.0, 5.0).offered == 0
