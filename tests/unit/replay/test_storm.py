"""The demo's storm goes on while nobody answers, and its summary counts requests, not tries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.outcome import Fate
from proxy.replay.storm import Storm, run_storm, summarize_storm
from tests.support.replay_records import completed, refused
from tests.support.scripted_upstream import Hold, ScriptedUpstream, json_answer

if TYPE_CHECKING:
    from proxy.replay.outcome import RequestRecord


def _records(upstream: ScriptedUpstream, timeout_s: float) -> list[RequestRecord]:
    patience = Patience(PROFILES["openai-python"], timeout_s, max_retries=0)
    storm = Storm("/v1/completions", {"prompt": "x"}, 100.0, 0.5, patience)

    async def scenario() -> list[RequestRecord]:
        async with upstream:
            return await run_storm(upstream.url, storm, 1, lambda _ended: None)

    return asyncio.run(scenario())


def test_requests_go_on_arriving_while_none_is_answered() -> None:
    upstream = ScriptedUpstream(Hold())
    records = _records(upstream, timeout_s=1.0)
    assert upstream.peak == len(records) > 20
    assert {record.fate for record in records} == {Fate.FAILED}


def test_every_request_has_one_record() -> None:
    upstream = ScriptedUpstream(json_answer())
    records = _records(upstream, timeout_s=5.0)
    assert len(upstream.seen) == len(records) > 20
    assert all(r.fate is Fate.COMPLETED and len(r.tries) == 1 for r in records)


def test_the_summary_tells_good_from_late_from_failed() -> None:
    records = [
        completed(0.0, ttft_s=1.0, tokens=1),
        completed(0.0, ttft_s=4.0, tokens=1),
        completed(0.0, ttft_s=9.0, tokens=1),
        refused(0.0, tries=3),
    ]
    summary = summarize_storm(records, duration_s=2.0, slo_s=5.0)

    assert (summary.offered, summary.good, summary.late, summary.failed) == (4, 2, 1, 1)
    assert summary.tries_per_request == pytest.approx(6 / 4)
    assert summary.refused_tries == 3
    assert summary.good_per_s == pytest.approx(1.0)
    assert summary.good_e2e_s == (2.5, 4.0)


def test_without_a_good_answer_there_is_no_duration_to_tell() -> None:
    assert summarize_storm([refused(0.0)], 1.0, 5.0).good_e2e_s is None
    assert summarize_storm([], 1.0, 5.0).offered == 0
