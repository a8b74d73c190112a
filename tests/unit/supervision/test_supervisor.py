"""The supervisor over engines that a test plays, in virtual time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from proxy.simulator.log_lines import out_of_memory_lines, start_up_lines
from proxy.simulator.options import SimulatorOptions
from proxy.supervision.restart_policy import Death, GiveUp, RestartPolicy
from proxy.supervision.supervisor import Supervisor
from proxy.vllm.doctor.evidence import Phase
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.vllm.doctor.evidence import Diagnosis, StartUpFacts

OPTIONS = SimulatorOptions(max_num_seqs=64, kv_cache_tokens=32_768)


class PlayedEngine:
    """Runs until a test says that it ends, or stops it."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.write = take
        self.ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.told: list[str] = []

    def die(self, code: int = 1) -> None:
        self.ending.set_result(code)

    async def ended(self) -> int:
        return await asyncio.shield(self.ending)

    def leave(self) -> None:
        self.told.append("leave")

    async def stop(self, within_s: float) -> int:
        self.told.append(f"stop {within_s:g}")
        if not self.ending.done():
            self.ending.set_result(0)
        return await self.ending


@dataclass
class Played:
    """A supervisor, the engines it started, and all it reported."""

    give_up_after: int = 3
    is_up: bool = False
    cannot_start: bool = False
    looks: int = 0
    engines: list[PlayedEngine] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    facts: StartUpFacts | None = None
    diagnoses: list[Diagnosis] = field(default_factory=list)

    def __post_init__(self) -> None:
        policy = RestartPolicy(
            random.Random(1), give_up_after=self.give_up_after, first_delay_s=10.0
        )
        loop = asyncio.get_running_loop()
        self.supervisor = Supervisor(
            self._start, policy, self, lambda: self.is_up, self._look, loop.time
        )
        self.supervisor.start()

    def _look(self) -> None:
        self.looks += 1

    async def _start(self, take: Callable[[bytes], None]) -> PlayedEngine:
        await asyncio.sleep(0.1)
        if self.cannot_start:
            raise OSError("no more processes")
        self.engines.append(PlayedEngine(take))
        return self.engines[-1]

    async def engine(self, number: int = 1) -> PlayedEngine:
        """The so-manieth, once it runs."""
        while len(self.engines) < number:
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        return self.engines[number - 1]

    async def until_said(self, beginning: str) -> None:
        while not any(said.startswith(beginning) for said in self.said):
            await asyncio.sleep(0.1)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def starting(self, attempt: int) -> None:
        self.said.append(f"starting {attempt}")

    def up(self, after_s: float, facts: StartUpFacts) -> None:
        self.said.append(f"up after {after_s:.0f} s")
        self.facts = facts

    def died(self, death: Death, diagnosis: Diagnosis) -> None:
        self.said.append(f"died {death.exit_code} {death.phase.value}")
        self.diagnoses.append(diagnosis)

    def starts_again(self, delay_s: float) -> None:
        assert delay_s >= 5.0
        self.said.append("again")

    def gave_up(self, decided: GiveUp, death: Death) -> None:
        self.said.append(f"gave up: {decided.why}")
        assert death.exit_code


def log(*, oom: bool = False) -> bytes:
    lines = start_up_lines(OPTIONS, "http://127.0.0.1:1")
    lines = [*lines, *out_of_memory_lines(OPTIONS, 6000)] if oom else lines
    return "".join(f"{line.format(7, 0.0)}\n" for line in lines).encode()


def test_it_tells_when_the_engine_is_up_and_what_it_got() -> None:
    async def scenario() -> None:
        played = Played()
        engine = await played.engine()
        engine.write(log())
        await asyncio.sleep(30.0)
        played.is_up = True
        await played.until_said("up")
        assert played.said == ["starting 1", "up after 30 s"]
        assert played.facts is not None
        assert played.facts.kv_cache_tokens == 32_768
        assert played.lines == log().decode().splitlines()
        await played.supervisor.stop(5.0)

    run(scenario())


def test_an_engine_that_dies_is_diagnosed_and_another_started() -> None:
    async def scenario() -> None:
        played = Played()
        engine = await played.engine()
        played.is_up = True
        await played.until_said("up")
        engine.write(log(oom=True))
        engine.die()
        played.is_up = False
        await played.engine(2)
        assert played.said[2:] == ["died 1 prefill", "again", "starting 2"]
        assert played.looks == 1
        (diagnosis,) = played.diagnoses
        assert diagnosis.phase is Phase.PREFILL
        assert diagnosis.evidence
        await played.supervisor.stop(5.0)

    run(scenario())


def test_what_was_seen_of_the_last_engine_does_not_make_the_next_one_up() -> None:
    async def scenario() -> None:
        played = Played()
        await played.engine()
        played.is_up = True
        await played.until_said("up")
        (first,) = played.engines
        first.die()
        second = await played.engine(2)
        await asyncio.sleep(1.0)
        played.is_up = False
        await asyncio.sleep(1.0)
        second.die(137)
        await played.until_said("died 137")
        assert sum(said.startswith("up") for said in played.said) == 1
        await played.supervisor.stop(5.0)

    run(scenario())


def test_one_that_says_that_it_serves_is_up_though_nobody_saw_the_last_one_go() -> None:
    async def scenario() -> None:
        played = Played()
        first = await played.engine()
        played.is_up = True
        await played.until_said("up")
        first.die()
        second = await played.engine(2)
        second.write(log())
        await asyncio.sleep(0.5)
        assert played.said[-1] == "up after 0 s"
        await played.supervisor.stop(5.0)

    run(scenario())


def test_it_gives_up_in_the_end_and_remembers_the_last_death() -> None:
    async def scenario() -> None:
        played = Played(give_up_after=2)
        (await played.engine(1)).die(1)
        (await played.engine(2)).die(9)
        await played.supervisor.ended
        assert played.said[-1] == "gave up: it died 2 times in a row"
        assert played.supervisor.last_death is not None
        assert played.supervisor.last_death.exit_code == 9
        assert len(played.engines) == 2

    run(scenario())


def test_to_stop_is_to_stop_the_engine_which_then_did_not_die() -> None:
    async def scenario() -> None:
        played = Played(is_up=True)
        engine = await played.engine()
        await played.until_said("up")
        played.supervisor.leave()
        assert engine.told == ["leave"]
        await played.supervisor.stop(7.0)
        assert engine.told[-1] == "stop 7"
        assert [said.split()[0] for said in played.said] == ["starting", "up"]
        assert played.supervisor.last_death is None

    run(scenario())


def test_an_engine_that_still_loads_is_not_waited_for_as_long() -> None:
    async def scenario() -> None:
        played = Played()
        engine = await played.engine()
        await played.supervisor.stop(20.0)
        assert engine.told == ["leave", "stop 3"]

    run(scenario())


def test_an_engine_that_dies_while_we_leave_is_not_started_again() -> None:
    async def scenario() -> None:
        played = Played()
        engine = await played.engine()
        played.supervisor.leave()
        engine.die()
        await played.supervisor.ended
        await played.supervisor.stop(7.0)
        assert played.said == ["starting 1"]
        assert len(played.engines) == 1

    run(scenario())


def test_stopped_between_two_engines_it_starts_no_other() -> None:
    async def scenario() -> None:
        played = Played()
        (await played.engine()).die()
        await played.until_said("again")
        await played.supervisor.stop(7.0)
        await asyncio.sleep(60.0)
        assert len(played.engines) == 1

    run(scenario())


def test_stopped_while_an_engine_is_being_started_it_stops_that_one() -> None:
    async def scenario() -> None:
        played = Played()
        await asyncio.sleep(0.05)
        assert played.engines == []
        await played.supervisor.stop(7.0)
        (engine,) = played.engines
        assert engine.told[-1] == "stop 3"

    run(scenario())


def test_what_keeps_engines_from_being_started_at_all_is_raised_in_the_end() -> None:
    async def scenario() -> None:
        played = Played(cannot_start=True)
        await asyncio.wait([played.supervisor.ended])
        with pytest.raises(OSError, match="no more processes"):
            await played.supervisor.stop(7.0)

    run(scenario())
