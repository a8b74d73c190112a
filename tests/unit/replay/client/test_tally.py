"""What the progress shows adds up."""

from __future__ import annotations

import pytest

from proxy.replay.client.tally import PromptLengths, Tally
from proxy.replay.outcome import Fate
from proxy.replay.request_times import Objective
from tests.support.replay_records import completed, refused


def test_every_request_that_started_runs_or_has_ended() -> None:
    tally = Tally(Objective(ttft_s=1.0))
    for _ in range(4):
        tally.started()
    tally.ended(completed(0.0, ttft_s=0.5), 101)
    tally.ended(completed(0.0, ttft_s=2.0), None)
    tally.ended(refused(0.0), None)
    tally.cut_off()
    assert (tally.offered, tally.running, tally.peak, tally.good, tally.cut) == (4, 0, 4, 1, 1)
    assert tally.fates == {Fate.COMPLETED: 2, Fate.SHED: 1}
    assert (tally.prompts.compared, tally.prompts.furthest) == (1, 1)


def test_the_error_of_prompts_is_that_of_their_sum() -> None:
    prompts = PromptLengths()
    assert prompts.error == 0.0
    prompts.compare(100, 110)
    prompts.compare(100, 100)
    assert prompts.error == pytest.approx(0.05)
    assert prompts.furthest == 10
