"""A gateway in front of an engine that serves, real or simulated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tests.support.engine_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.engine_process import EngineProcess


class _Endings(NamedTuple):
    aborts: int
    stops: int


@dataclass(frozen=True)
class Site:
    url: str
    engine: EngineProcess

    def is_left_by(self, leave: Callable[[], None]) -> None:
        """`leave` asks for a long answer and leaves: that is an abort in the engine.

        Up to three times: the tests' model draws at random, and one of its 1,024 tokens ends the
        answer, which may be just before the client leaves.
        """
        for _ in range(3):
            before = self._endings()
            leave()
            wait_until(partial(self._has_moved_on, before), "an abort", within_s=5.0)
            if self._endings().aborts != before.aborts:
                break
        assert self._endings().aborts == before.aborts + 1
        wait_until(lambda: self.engine.running == 0, "an idle engine", within_s=5.0)

    def _has_moved_on(self, before: _Endings) -> bool:
        return self._endings() != before

    def _endings(self) -> _Endings:
        return _Endings(self.engine.aborted, self.engine.finished("stop"))
