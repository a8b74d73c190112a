"""The engine's lives in one log: each from a start to the next."""

from dataclasses import dataclass, field, replace

from proxy.vllm.doctor.evidence import (
    EngineLife,
    EvidenceLine,
    Frame,
    OomEvent,
    Sign,
    StartUpFacts,
)
from proxy.vllm.doctor.log_line import LogLine
from proxy.vllm.doctor.start_up_facts import begins_engine, facts_of
from proxy.vllm.doctor.stats_lines import StatsLine, StatsSum
from proxy.vllm.doctor.step_dump import read_step_dump
from proxy.vllm.doctor.tracebacks import engine_of

MOST_LIVES = 64
MOST_EVENTS = 64
MOST_OF_ONE_RULE = 4


@dataclass(slots=True)
class _Life:
    first_line: int = 1
    facts: StartUpFacts = field(default_factory=StartUpFacts)
    stats: StatsSum = field(default_factory=StatsSum)
    events: list[OomEvent] = field(default_factory=list)
    events_seen: int = 0
    signs: list[Sign] = field(default_factory=list)
    signs_of: dict[str, int] = field(default_factory=dict)
    arguments_of: set[str] = field(default_factory=set)
    engines: set[str] = field(default_factory=set)


class Lives:
    """Sorts what one file says into the lives of its engine."""

    def __init__(self, file: str) -> None:
        self.recognised = 0
        self._file = file
        self._now = _Life()
        self._before: list[EngineLife] = []

    @property
    def events_now(self) -> int:
        return self._now.events_seen

    def add_line(self, line: LogLine, at: EvidenceLine) -> None:
        """A line that may begin a life, and may tell facts of it."""
        self._begin_where_one_begins(line, at)
        facts = facts_of(self._now.facts, line)
        if facts.engine is None and (engine := _engine_of(line)):
            facts = replace(facts, engine=engine)
        if facts is not self._now.facts:
            self.recognised += 1
            self._now.facts = facts

    def is_fullest(self, stats: StatsLine) -> bool:
        return self._now.stats.is_fullest(stats)

    def add_stats(self, stats: StatsLine, at: EvidenceLine | None) -> None:
        """`at` is given for the fullest line alone."""
        self.recognised += 1
        life = self._now
        life.stats.add(stats)
        if at:
            life.stats.peak_line = at
        if not life.facts.ready:
            engine = "V0" if stats.swapped is not None else "V1"
            life.facts = replace(life.facts, ready=True, engine=life.facts.engine or engine)

    def add_event(self, event: OomEvent, frames: tuple[Frame, ...]) -> None:
        self.recognised += 1
        life = self._now
        life.events_seen += 1
        if len(life.events) < MOST_EVENTS:
            life.events.append(replace(event, frames=frames, after_ready=life.facts.ready))
        engine = engine_of(frames)
        if engine and life.facts.engine is None:
            life.facts = replace(life.facts, engine=engine)

    def add_sign(self, sign: Sign, line: LogLine) -> None:
        self.recognised += 1
        life = self._now
        seen = life.signs_of[sign.rule] = life.signs_of.get(sign.rule, 0) + 1
        if seen <= MOST_OF_ONE_RULE or sign.numbers:
            life.signs.append(_with_step(sign, line))
            _forget_middle(life.signs, sign.rule)

    def ended(self) -> tuple[EngineLife, ...]:
        """All lives, the present one too when it said anything."""
        now = self._now
        spoke = now.events or now.signs or now.facts != StartUpFacts()
        return (*self._before, self._frozen()) if spoke else tuple(self._before)

    def _begin_where_one_begins(self, line: LogLine, at: EvidenceLine) -> None:
        arguments = "non-default args" in line.text or "args: Namespace" in line.text
        engine = begins_engine(line.text)
        if not arguments and not engine:
            return
        self.recognised += 1
        seen = self._now.arguments_of if arguments else self._now.engines
        # Several ranks, or several API processes, say the same words within one life.
        if line.process in seen or (arguments and self._now.engines):
            self._before.append(self._frozen())
            del self._before[:-MOST_LIVES]
            self._now = _Life(first_line=at.line)
        (self._now.arguments_of if arguments else self._now.engines).add(line.process)

    def _frozen(self) -> EngineLife:
        now = self._now
        return EngineLife(
            file=self._file,
            first_line=now.first_line,
            facts=now.facts,
            stats=now.stats.summary(),
            events=tuple(now.events),
            events_seen=now.events_seen,
            signs=tuple(now.signs),
        )


def _engine_of(line: LogLine) -> str | None:
    """The names of its processes tell the engine too."""
    if line.process.startswith(("EngineCore", "Worker_", "APIServer")):
        return "V1"
    return "V0" if line.process == "VllmWorkerProcess" else None


def _with_step(sign: Sign, line: LogLine) -> Sign:
    dump = read_step_dump(line.text) if sign.rule == "what the last step held" else None
    return replace(sign, step=dump) if dump else sign


def _forget_middle(signs: list[Sign], rule: str) -> None:
    """Of a rule that speaks often the first lines and the last one are kept."""
    of_rule = [at for at, sign in enumerate(signs) if sign.rule == rule]
    if len(of_rule) > MOST_OF_ONE_RULE:
        del signs[of_rule[-2]]
