"""What became of a mutant, and the process in which that is found out."""

from __future__ import annotations

import enum
import os
import resource
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

# A mutant that fills the memory is killed by it, and nothing else is.
_MOST_BYTES = 4 << 30
_PLAIN_EXIT = {0: "survived", 1: "killed"}


class Verdict(enum.StrEnum):
    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class _Child(Generic[T]):
    pid: int
    what: T


def in_processes(
    work: Iterable[T], at_once: int, judge: Callable[[T], bool]
) -> Iterator[tuple[T, Verdict]]:
    """Forks a process for each; `judge` says there whether the mutant is killed."""
    running: dict[int, _Child[T]] = {}
    for what in work:
        if len(running) >= at_once:
            yield _next_to_end(running)
        pid = os.fork()
        if pid == 0:
            _judge_and_exit(judge, what)
        running[pid] = _Child(pid, what)
    while running:
        yield _next_to_end(running)


def limit_cpu(seconds: float) -> None:
    """Ends this process once it has spent so much time of a processor from now on, however slow
    the machine is."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _judge_and_exit(judge: Callable[[T], bool], what: T) -> None:
    status = 2
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        status = int(judge(what))
    finally:
        os._exit(status)


def _next_to_end(running: dict[int, _Child[T]]) -> tuple[T, Verdict]:
    pid, status = os.wait()
    child = running.pop(pid)
    if os.WIFSIGNALED(status):
        was_slow = os.WTERMSIG(status) == signal.SIGPROF
        return child.what, Verdict.TIMED_OUT if was_slow else Verdict.KILLED
    code = os.WEXITSTATUS(status)
    if code not in _PLAIN_EXIT:
        raise RuntimeError(f"{child.what} could not be judged: its process ended with {code}")
    return child.what, Verdict.SURVIVED if code == 0 else Verdict.KILLED
