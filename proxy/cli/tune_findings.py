"""What a tuning says in the end: whole sentences, what matters most first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.replay.client.lag import LATE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.cli.tune_trials import Trials
    from proxy.replay.limit_curve import LimitPoint
    from proxy.replay.limit_search import Range, Recommendation

_CLIFF = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What came of the trials. `found` is None where nothing is proven: somebody broke it off, a
    trial could not be played (`failure` says why), the range was not looked at from end to end, or
    nothing was good. `is_settled`: no more trials were wanted."""

    span: Range
    trials: Trials
    curve: Sequence[LimitPoint]
    found: Recommendation | None
    is_surveyed: bool = True
    is_settled: bool = True
    interrupted: bool = False
    failure: str | None = None


def findings_of(tuned: Tuned) -> list[str]:
    if tuned.found is not None:
        return [*_recommended(tuned, tuned.found), *_late(tuned.trials)]
    if tuned.interrupted or tuned.failure is not None or not tuned.is_surveyed:
        return [_unproven(tuned), *_best_so_far(tuned.curve), *_late(tuned.trials)]
    return [
        "No answer was good at any limit: the load is too high, or the objective too strict.",
        *_late(tuned.trials),
    ]


def _unproven(tuned: Tuned) -> str:
    count, limits = tuned.trials.count, len(tuned.curve)
    measured = f"after {_plural(count, 'trial')} of {_plural(limits, 'limit')}"
    if tuned.failure is not None:
        return f"Ended {measured}, for the next could not be played: {tuned.failure}"
    if tuned.interrupted and not count:
        return "Broken off before a trial that counts had ended: nothing is known."
    if tuned.interrupted:
        return f"Broken off {measured}: that proves nothing, and no limit is recommended."
    return (
        f"No limit is recommended: only {_plural(limits, 'limit')} of the range "
        f"{tuned.span.low} to {tuned.span.high} could be measured."
    )


def _best_so_far(curve: Sequence[LimitPoint]) -> Iterator[str]:
    best = max(curve, key=lambda point: point.goodput_per_s, default=None)
    if best is not None and len(curve) > 1:
        yield (
            f"So far {best.limit} had the most good requests/s: {best.goodput_per_s:.3g} "
            f"in {_plural(best.trials, 'trial')}."
        )


def _late(trials: Trials) -> Iterator[str]:
    if not trials.late:
        return
    worst: dict[int, float] = {}
    for limit, late_s in trials.late:
        worst[limit] = max(late_s, worst.get(limit, 0.0))
    listed = ", ".join(f"{late_s:.2f} s at limit {limit}" for limit, late_s in worst.items())
    text = (
        f"{_plural(len(trials.late), 'trial')} did not count, for the load generator itself was "
        f"late: by {listed} ({LATE_S} s is allowed). Lower the rate, or give it a core of its own."
    )
    if trials.generator_is_too_slow:
        text += f" After {trials.late_in_a_row} in a row no more were tried."
    yield text


def _recommended(tuned: Tuned, found: Recommendation) -> Iterator[str]:
    yield f"Recommended: SLUICE_MAX_IN_FLIGHT={found.limit}"
    others = [str(limit) for limit in found.as_good if limit != found.limit]
    if others:
        yield (
            f"As good within noise: {', '.join(others)}. The smallest is recommended, for it "
            "leaves the engine the most room."
        )
    if cliff := _cliff(found.limit, tuned.curve):
        yield cliff
    if not tuned.is_settled and not tuned.trials.generator_is_too_slow:
        yield (
            "The trials were used up while limits near it were in question: a larger --max-trials "
            "may move it a little."
        )
    yield from _at_an_end(tuned.span, found.limit)
    objective = tuned.trials.counted[found.limit][-1].objective
    if (objective.ttft_s, objective.tpot_s, objective.e2e_s) == (None, None, None):
        yield (
            "There was no objective, so every whole answer counts as good, however late it was: "
            "state one with the options of sluice replay."
        )


def _at_an_end(span: Range, limit: int) -> Iterator[str]:
    if limit == span.high:
        yield f"{span.high} is the largest limit that was allowed: a larger one may be better."
    if limit == span.low and span.low > 1:
        yield (
            f"{span.low} is the smallest limit that was allowed, and as good as any: the load may "
            "be too light to tell limits apart."
        )


def _cliff(limit: int, curve: Sequence[LimitPoint]) -> str | None:
    """Beyond some limits an objective is missed by all at once, not by some."""
    at = next(i for i, point in enumerate(curve) if point.limit == limit)
    if at + 1 == len(curve):
        return None
    here, above = curve[at], curve[at + 1]
    if above.goodput_per_s > here.goodput_per_s * (1 - _CLIFF):
        return None
    text = f"It is close to a cliff: {above.limit} has {above.goodput_per_s:.3g} good requests/s."
    if at > 0:
        below = curve[at - 1]
        given_up = 1 - below.goodput_per_s / here.goodput_per_s
        text += f" {below.limit} keeps a margin and gives up {max(given_up, 0):.0%}."
    return text


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
