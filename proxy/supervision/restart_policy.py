"""Whether an engine that died is started again, and when.

    delay(k) = min(longest, first x 2^(k-1)) x U(0.5, 1.5)      k: deaths in a row

A life that served for `steady_s` ends the row. Starting again is given up after `give_up_after`
deaths in a row; sooner where the same arguments can only fail the same way: when the engine refuses
them, and when it runs out of memory at the same point of its start for the second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.doctor.evidence import Phase

if TYPE_CHECKING:
    import random

# Of argparse and click: the command line cannot be used.
_REFUSED = 2
# The memory of a predecessor that just died may not be free yet, so this one may pass.
_PASSING = Phase.STARTUP_MEMORY_TAKEN
_AT_START = frozenset(phase for phase in Phase if phase.value.startswith("startup_")) - {_PASSING}


@dataclass(frozen=True, slots=True)
class Death:
    """The end of an engine that nobody asked for. `exit_code` is 128 + N for signal N; `served_s`
    is how long it was up, None if it never was."""

    exit_code: int
    served_s: float | None
    oom: bool | None = None
    phase: Phase = Phase.UNKNOWN


@dataclass(frozen=True, slots=True)
class Restart:
    delay_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    why: str


class RestartPolicy:
    """Is told of each death in turn."""

    def __init__(
        self,
        rng: random.Random,
        *,
        give_up_after: int = 5,
        first_delay_s: float = 1.0,
        longest_delay_s: float = 60.0,
        steady_s: float = 300.0,
    ) -> None:
        self._rng = rng
        self._give_up_after = give_up_after
        self._first_delay_s = first_delay_s
        self._longest_delay_s = longest_delay_s
        self._steady_s = steady_s
        self._in_a_row = 0
        self._last: Death | None = None

    def after(self, death: Death) -> Restart | GiveUp:
        if death.served_s is not None and death.served_s >= self._steady_s:
            self._in_a_row = 0
        self._in_a_row += 1
        last, self._last = self._last, death
        if death.served_s is None and death.exit_code == _REFUSED:
            return GiveUp("it does not take these arguments")
        if _fails_at_start(death) and last is not None and _same(death, last):
            return GiveUp("it ran out of memory at the same point of its start twice")
        if self._in_a_row >= self._give_up_after:
            return GiveUp(f"it died {self._in_a_row} times in a row")
        return Restart(self._delay_s())

    def _delay_s(self) -> float:
        doubled = self._first_delay_s * 2.0 ** min(self._in_a_row - 1, 30)
        return min(self._longest_delay_s, doubled) * self._rng.uniform(0.5, 1.5)


def _fails_at_start(death: Death) -> bool:
    return death.served_s is None and death.oom is True and death.phase in _AT_START


def _same(death: Death, last: Death) -> bool:
    return last.served_s is None and last.phase is death.phase
