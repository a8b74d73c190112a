"""What a figure is: a name, its columns, who is measured, how."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.contenders import Limits, started
from tests.bench.fake_upstream import EngineOptions
from tests.bench.processes import free_port, running, until_it_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from pathlib import Path

    from tests.bench.contenders import Contender
    from tests.bench.machine import Cores
    from tests.bench.peers import Peers


@dataclass(frozen=True)
class Column:
    """A number that is measured for each contender in each round.

    `minus_direct`: shown is what the contender adds to the direct way in the same round.
    """

    key: str
    heading: str
    digits: int = 0
    minus_direct: bool = False
    with_ratio: bool = True


@dataclass(frozen=True)
class Figure:
    """`measure` gives a number for each of the columns, or raises NotMeasuredError."""

    name: str
    title: str
    method: str
    columns: tuple[Column, ...]
    contenders: tuple[str, ...]
    measure: Callable[[Bench, Contender], Coroutine[None, None, Mapping[str, float]]]


@dataclass(frozen=True)
class Gateway:
    """One contender in front of a fake engine; `group` is its process group, 0 for direct."""

    port: int
    group: int
    health: str


@dataclass(frozen=True)
class Bench:
    """What every measurement needs. `seconds` is the length of one measuring window."""

    peers: Peers
    cores: Cores
    seconds: float
    streams_held: int
    scratch: Path

    @contextlib.contextmanager
    def gateway(
        self,
        contender: Contender,
        limits: Limits | None = None,
        engine: EngineOptions | None = None,
    ) -> Iterator[Gateway]:
        """The contender in front of a new fake engine. Raises NotMeasuredError if one fails."""
        engine_port = free_port()
        options = (engine or EngineOptions()).arguments()
        command = (sys.executable, "-m", "tests.bench.fake_upstream", str(engine_port), *options)
        log = self.scratch / "engine.log"
        with running(self.cores.load, command, {}, log) as engine_group:
            until_it_answers(engine_port, engine_group, log)
            with started(
                contender,
                self.peers,
                f"http://127.0.0.1:{engine_port}",
                limits or Limits(),
                self.scratch,
                self.cores.proxy,
            ) as (port, group):
                yield Gateway(port, group, contender.health)
