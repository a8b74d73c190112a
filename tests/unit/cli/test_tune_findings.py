"""Of a tuning is said what is proven, and where nothing is, that nothing is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.cli.tune_findings import Tuned, findings_of
from proxy.cli.tune_trials import Trials
from proxy.replay.limit_curve import limit_curve
from proxy.replay.limit_search import Range, Recommendation
from tests.support.replay_records import completed, refused, result_of

ONE = result_of(completed(0.0), refused(0.0), slo_ttft_s=1.0)
TWO = result_of(completed(0.0), completed(0.0), slo_ttft_s=1.0)
TRIALS = Trials({4: [ONE], 8: [TWO, TWO], 16: [TWO]})
FOUND = Recommendation(limit=8, best=8, as_good=(8,), noise=0.01)
TUNED = Tuned(span=Range(4, 16), trials=TRIALS, curve=limit_curve(TRIALS.counted), found=FOUND)


def test_a_recommendation_stands_first_and_alone_where_there_is_nothing_to_doubt() -> None:
    assert findings_of(TUNED) == ["Recommended: SLUICE_MAX_IN_FLIGHT=8"]


def test_what_was_broken_off_recommends_nothing_and_says_what_was_measured() -> None:
    first, best = findings_of(replace(TUNED, found=None, interrupted=True))
    assert first == (
        "Broken off after 4 trials of 3 limits: that proves nothing, and no limit is recommended."
    )
    assert best == "So far 8 had the most good requests/s: 0.2 in 2 trials."


def test_one_limit_alone_is_not_called_the_best_so_far() -> None:
    trials = Trials({8: [TWO]})
    alone = replace(TUNED, trials=trials, curve=limit_curve(trials.counted), found=None)
    (only,) = findings_of(replace(alone, interrupted=True))
    assert only.startswith("Broken off after 1 trial of 1 limit: ")


def test_broken_off_at_once_nothing_is_known() -> None:
    none = replace(TUNED, trials=Trials(), curve=[], found=None, interrupted=True)
    assert findings_of(none) == [
        "Broken off before a trial that counts had ended: nothing is known."
    ]


def test_late_trials_are_told_with_their_figures() -> None:
    trials = replace(TRIALS, late=[(16, 0.2), (16, 0.412), (4, 0.15)])
    assert findings_of(replace(TUNED, trials=trials))[1] == (
        "3 trials did not count, for the load generator itself was late: by 0.41 s at limit 16, "
        "0.15 s at limit 4 (0.1 s is allowed). Lower the rate, or give it a core of its own."
    )


def test_where_a_limit_could_not_be_measured_nothing_is_recommended() -> None:
    trials = Trials({4: [ONE], 8: [TWO]}, late=[(16, 0.4)] * 3, late_in_a_row=3)
    curve = limit_curve(trials.counted)
    unproven = replace(TUNED, trials=trials, curve=curve, found=None, is_surveyed=False)
    first, best, late = findings_of(unproven)
    assert first == (
        "No limit is recommended: only 2 limits of the range 4 to 16 could be measured."
    )
    assert best.startswith("So far 8 ")
    assert late.endswith("After 3 in a row no more were tried.")


def test_a_trial_that_cannot_be_played_does_not_cost_those_before_it() -> None:
    first, best = findings_of(replace(TUNED, found=None, failure="the engine is gone"))
    assert first == (
        "Ended after 4 trials of 3 limits, for the next could not be played: the engine is gone"
    )
    assert best.startswith("So far 8 ")


def test_trials_that_ran_out_are_said_to_have() -> None:
    assert "used up" in findings_of(replace(TUNED, is_settled=False))[1]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (16, "16 is the largest limit that was allowed"),
        (4, "4 is the smallest limit that was allowed"),
    ],
)
def test_an_end_of_the_range_is_pointed_out(limit: int, said: str) -> None:
    found = replace(FOUND, limit=limit, as_good=(limit,))
    assert findings_of(replace(TUNED, found=found))[1].startswith(said)


def test_without_an_objective_every_whole_answer_was_good_which_is_said() -> None:
    trials = Trials({8: [result_of(completed(0.0))]})
    tuned = replace(TUNED, trials=trials, curve=limit_curve(trials.counted))
    assert findings_of(tuned)[-1].startswith("There was no objective")


def test_nothing_good_at_any_limit_is_said() -> None:
    (only,) = findings_of(replace(TUNED, found=None))
    assert only.startswith("No answer was good at any limit")
