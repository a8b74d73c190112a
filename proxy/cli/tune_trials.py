"""The trials of a tuning: a gateway with one limit, the load against it, again and again."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from proxy.cli.beside import child_serving_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from proxy.replay.limit_search import LimitSearch
    from proxy.replay.result import ReplayResult

# What a tuning decides itself, whatever the shell or a .env file has for the user's own gateway.
# An empty value is an unset one.
_OWN_SETTINGS = {
    "SLUICE_HOST": "127.0.0.1",
    "SLUICE_PORT": "0",
    "SLUICE_ADMIN_HOST": "127.0.0.1",
    "SLUICE_ADMIN_PORT": "0",
    "SLUICE_ADAPTIVE": "false",
    "SLUICE_SHADOW": "false",
    "SLUICE_WORKERS": "1",
    "SLUICE_REDIS_URL": "",
    "SLUICE_TRACE_FILE": "",
    "SLUICE_API_KEYS": "",
    "SLUICE_API_KEYS_FILE": "",
    "SLUICE_LOG_LEVEL": "warning",
}


# So many in a row say that it will not get better.
_MOST_LATE = 3


@dataclass(slots=True)
class Trials:
    """What was measured by now: those that count, by limit, and those whose load generator was late
    itself, with how late in seconds."""

    counted: dict[int, list[ReplayResult]] = field(default_factory=dict)
    late: list[tuple[int, float]] = field(default_factory=list)
    late_in_a_row: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.counted.values()))

    @property
    def generator_is_too_slow(self) -> bool:
        return self.late_in_a_row >= _MOST_LATE

    def add(self, limit: int, result: ReplayResult) -> None:
        if result.run.is_late:
            self.late.append((limit, result.run.late_s))
            self.late_in_a_row += 1
        else:
            self.counted.setdefault(limit, []).append(result)
            self.late_in_a_row = 0


class Play(Protocol):
    """Plays the load once against a URL."""

    def __call__(self, url: str) -> ReplayResult: ...


def gateway_settings(engine_url: str, limit: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The user's own settings, but for what a tuning decides. The size of the engine is left out
    where it would forbid the limit."""
    settings = {**environment, **_OWN_SETTINGS}
    settings["SLUICE_UPSTREAM_URLS"] = engine_url
    settings["SLUICE_MAX_IN_FLIGHT"] = str(limit)
    told = settings.get("SLUICE_MAX_NUM_SEQS", "")
    if not told.isdecimal() or int(told) <= limit:
        settings["SLUICE_MAX_NUM_SEQS"] = ""
    return settings


@contextmanager
def gateway_with(engine_url: str, limit: int) -> Iterator[str]:
    """A gateway beside us for as long as it is needed; gives its URL."""
    command = [sys.executable, "-m", "proxy", "serve", "--exit-with-stdin"]
    environment = gateway_settings(engine_url, limit, os.environ)
    with child_serving_url(command, environment, quiet=True) as url:
        yield url


def run_trials(
    search: LimitSearch,
    gateway: Callable[[int], AbstractContextManager[str]],
    play: Play,
    trials: Trials,
    told: Callable[[int, ReplayResult], None],
) -> None:
    """Until the search has seen enough, or the load generator keeps being late. `trials` is filled
    as they end, so that whoever breaks it off keeps them; `told` hears of each."""
    while limits := search.next_round():
        for limit in limits:
            with gateway(limit) as url:
                result = play(url)
            trials.add(limit, result)
            if result.run.is_late:  # it measured itself, and must not decide about the limit
                search.spend()
            else:
                search.record(limit, result.goodput_per_s)
            told(limit, result)
            if trials.generator_is_too_slow:
                return
