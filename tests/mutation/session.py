"""Runs the tests on mutants, within one pytest session that has collected them once.

For each mutant a process is forked in which the code of one function is exchanged, wherever it is
referred to. It runs the tests that reach the function, those of the module's own file first, the
quick before the slow, until one fails.

What a module says outside of its functions has taken effect by then: such a mutant gets a session
of its own, in which the module is loaded from the mutated code.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.mutation.mutants import ADMISSION, ROOT, Mutant
from tests.mutation.verdict import Verdict, in_processes, limit_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec
    from types import FrameType

QUICK = ("tests/unit/admission", *(f"tests/conformance/test_{name}.py" for name in (
    "discipline", "limit", "placement",
)))  # fmt: skip
SLOW = ("tests/properties", "tests/scenarios")

# Of a processor's time, for what takes a second on a good day.
_PATIENCE_S = 3.0
_PATIENCE = 8.0
_LONGEST_SESSION_S = 300.0


def prepare_hypothesis() -> None:
    """The same examples each time, or luck decides; and a mutant once found need not be small."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutation", derandomize=True, database=None, phases=phases)
    settings.load_profile("mutation")


def run_pytest(paths: Iterable[str], *plugins: object) -> int:
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=60"]
    arguments += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*arguments, *paths], plugins=list(plugins)))


# Inside of functions


@dataclass
class MutantsOfFunctions:
    """A plugin of pytest: what stands in the place of running the tests one after the other."""

    mutants: list[Mutant]
    at_once: int
    report: Callable[[Mutant, Verdict], None]
    left_over: list[Mutant] = field(default_factory=list)
    """Those that are judged outside of this session."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        reach = _Reach()
        for item in session.items:
            reach.run(item)
        todo = []
        for mutant in self.mutants:
            change = _Exchange.of(mutant)
            if change is None:
                self.left_over.append(mutant)
            else:
                todo.append((mutant, change))
        judge = _judge_by(reach)
        for (mutant, _), verdict in in_processes(todo, self.at_once, judge):
            self.report(mutant, verdict)
        return True


def _judge_by(reach: _Reach) -> Callable[[tuple[Mutant, _Exchange]], bool]:
    def judge(one: tuple[Mutant, _Exchange]) -> bool:
        mutant, change = one
        items = reach.tests_of(change.old, mutant)
        change.make()
        for item in items:
            limit_cpu(_PATIENCE_S + _PATIENCE * reach.took_s[item])
            if _fails(item):
                return True
        return False

    return judge


def _fails(item: pytest.Item) -> bool:
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


class _Reach:
    """Which tests call which function of the core, and how long each takes."""

    def __init__(self) -> None:
        self.took_s: dict[pytest.Item, float] = {}
        self._callers: dict[CodeType, list[pytest.Item]] = {}
        self._called: set[CodeType] = set()
        self._is_ours: dict[str, bool] = {}

    def run(self, item: pytest.Item) -> None:
        self._called = set()
        began = time.process_time()
        sys.settrace(self._note)
        try:
            failed = _fails(item)
        finally:
            sys.settrace(None)
        if failed:
            raise pytest.UsageError(f"{item.nodeid} fails without any mutation")
        self.took_s[item] = time.process_time() - began
        for code in self._called:
            self._callers.setdefault(code, []).append(item)

    def tests_of(self, code: CodeType, mutant: Mutant) -> list[pytest.Item]:
        own = f"test_{mutant.path.stem}.py"
        items = self._callers.get(code, [])
        return sorted(items, key=lambda item: (item.path.name != own, self.took_s[item]))

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        """As a trace function it is told of calls alone: it asks for no lines."""
        del event, argument
        if frame.f_code not in self._called:
            name = frame.f_code.co_filename
            ours = self._is_ours.get(name)
            if ours is None:
                ours = self._is_ours[name] = name.startswith(str(ADMISSION))
            if ours:
                self._called.add(frame.f_code)


@dataclass(frozen=True, slots=True, eq=False)
class _Exchange:
    """Of the code of one function."""

    function: FunctionType
    old: CodeType
    new: CodeType

    @classmethod
    def of(cls, mutant: Mutant) -> _Exchange | None:
        """None where that is not all that the mutation changes."""
        function = _function(mutant)
        if function is None:
            return None
        new = _find(mutant.code(), mutant.function)
        old = function.__code__
        if new is None or new == old or new.co_freevars != old.co_freevars:
            return None
        return cls(function, old, new)

    def make(self) -> None:
        self.function.__code__ = self.new


def _function(mutant: Mutant) -> FunctionType | None:
    found: object = importlib.import_module(_dotted(mutant))
    if not mutant.function:
        return None
    for name in mutant.function.split("."):
        found = vars(found).get(name)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    return found if isinstance(found, FunctionType) else None


def _find(code: CodeType, name: str) -> CodeType | None:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == name:
                return inner
            if name.startswith(f"{inner.co_qualname}."):
                return _find(inner, name)
    return None


def _dotted(mutant: Mutant) -> str:
    return ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts)


# Outside of functions


def judge_afresh(mutants: list[Mutant], at_once: int, paths: tuple[str, ...]) -> Iterable[
    tuple[Mutant, Verdict]
]:  # fmt: skip
    """In a session each. To be called in a process that has loaded nothing of the project."""

    def judge(mutant: Mutant) -> bool:
        sys.meta_path.insert(0, _Mutated(mutant))
        limit_cpu(_LONGEST_SESSION_S)
        _be_quiet()
        return any(_session_fails(path) for path in (*_own_tests(mutant), *paths))

    return in_processes(mutants, at_once, judge)


def _session_fails(path: str) -> bool:
    status = run_pytest([path])
    if status in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise RuntimeError(f"pytest has not understood what to run of {path}")
    return status != pytest.ExitCode.OK


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _own_tests(mutant: Mutant) -> list[str]:
    folder, stem = Path(mutant.module).parent, Path(mutant.module).stem
    own = ROOT / "tests/unit/admission" / folder / f"test_{stem}.py"
    return [str(own)] if own.is_file() else []


class _Mutated(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname != _dotted(self._mutant):
            return None
        file = str(self._mutant.path)
        loader = _Loader(fullname, file, self._mutant)
        return importlib.machinery.ModuleSpec(fullname, loader, origin=file)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self._mutant.code()
