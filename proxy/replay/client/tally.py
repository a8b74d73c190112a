"""Counts of a replay while it runs: what the progress shows, and how true the prompts were."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy.replay.outcome import Fate
from proxy.replay.request_times import is_good

if TYPE_CHECKING:
    from proxy.replay.outcome import RequestRecord
    from proxy.replay.request_times import Objective


class Tally:
    """`offered` requests have started; `running` of them have no end yet."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.offered = 0
        self.running = 0
        self.peak = 0
        self.retries = 0
        self.good = 0
        self.cut = 0
        self.fates: Counter[Fate] = Counter()
        self.prompts = PromptLengths()

    def started(self) -> None:
        self.offered += 1
        self.running += 1
        self.peak = max(self.peak, self.running)

    def retried(self) -> None:
        self.retries += 1

    def ended(self, record: RequestRecord, prompt_tokens: int | None) -> None:
        """`prompt_tokens`: what the engine counted, if it said so."""
        self.running -= 1
        self.fates[record.fate] += 1
        self.good += is_good(record, self._objective)
        if prompt_tokens is not None and record.fate is Fate.COMPLETED:
            self.prompts.compare(record.prompt_tokens, prompt_tokens)

    def cut_off(self) -> None:
        """The replay was ended under it."""
        self.running -= 1
        self.cut += 1


class PromptLengths:
    """Tokens of prompts as asked for and as the engine counted them."""

    def __init__(self) -> None:
        self.compared = 0
        self.asked = 0
        self.counted = 0
        self.furthest = 0

    def compare(self, asked: int, counted: int) -> None:
        self.compared += 1
        self.asked += asked
        self.counted += counted
        self.furthest = max(self.furthest, abs(counted - asked))

    @property
    def error(self) -> float:
        """Of the sum, as a share: 0.01 is one per cent too many."""
        return self.counted / self.asked - 1 if self.asked else 0.0
