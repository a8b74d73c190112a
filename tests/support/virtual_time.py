"""An event loop in which time passes only when nobody has anything to do.

The selector never blocks: asked to wait for the next timer, it moves the clock to that timer. An
hour of timeouts runs in milliseconds, and always in the same order. Nothing in it may use real
sockets or wait for another thread; executor jobs run inline.

    def test_a_waiter_times_out() -> None:
        async def scenario() -> None:
            await asyncio.sleep(3600)
            assert now() == 3600

        run(scenario())
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

T = TypeVar("T")

# So many loop turns without time passing are a task that spins, not a busy moment.
_MAX_TURNS_AT_ONE_MOMENT = 1_000_000


class DeadlockError(AssertionError):
    """Nothing is ready and no timer is set: the test would wait for ever."""


class LivelockError(AssertionError):
    """Something is always ready, so time cannot pass."""


class LeftoverTasksError(AssertionError):
    """The scenario ended while tasks that it had started were still pending."""


class UnhandledError(AssertionError):
    """A callback or a task that nobody awaited failed."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` in a fresh virtual-time loop that starts at 0 s, and returns its result.

    Raises what `main` raises; DeadlockError when everybody waits for something that cannot come;
    LeftoverTasksError when `main` returns but other tasks stay pending; UnhandledError when a
    callback failed or a task's exception was never looked at.
    """
    unhandled: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        result = runner.run(_with_nothing_left_over(main))
    for context in unhandled:
        raise UnhandledError(context["message"]) from context.get("exception")
    return result


def now() -> float:
    """Seconds on the running loop's clock."""
    return asyncio.get_running_loop().time()


def hold_up(for_s: float) -> None:
    """As a step that takes so long: timers become overdue."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("hold_up() needs a VirtualTimeLoop")
    loop.hold_up(for_s)


def after_timers(callback: Callable[..., object], *args: object) -> None:
    """Calls it where a loop reads its sockets: in the next turn, but after the overdue timers."""
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, callback, *args)


async def settle() -> None:
    """Lets everything run that can run at this moment. No time passes."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("settle() needs a VirtualTimeLoop")
    await loop.idle()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock starts at 0 s and jumps from timer to timer."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._waiting_for_idle: list[asyncio.Future[None]] = []
        super().__init__(_ClockSelector(self))

    def time(self) -> float:
        return self._virtual_now

    def hold_up(self, for_s: float) -> None:
        self._virtual_now += for_s

    def idle(self) -> asyncio.Future[None]:
        """Done as soon as nothing is ready any more."""
        future = self.create_future()
        self._waiting_for_idle.append(future)
        return future

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Runs the job inline: a thread would finish at a moment of its own."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the future
            future.set_exception(error)
        return future

    def nothing_is_ready(self, until_next_timer_s: float | None) -> None:
        """Called by the selector: wakes those who wait for idleness, else moves the clock."""
        waiting, self._waiting_for_idle = self._waiting_for_idle, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if waiting:
            return
        if until_next_timer_s is None:
            raise DeadlockError(
                f"at {self._virtual_now} s nothing is ready and no timer is set; waiting:\n"
                + describe(asyncio.all_tasks(self))
            )
        self._virtual_now += until_next_timer_s

    def nothing_ever_ends(self) -> None:
        raise LivelockError(
            f"time stands still at {self._virtual_now} s; pending:\n"
            + describe(asyncio.all_tasks(self))
        )


class _ClockSelector(selectors.SelectSelector):
    """Polls for the loop's own wake-ups, and hands waiting over to the virtual clock."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            self._turns += 1
            if self._turns > _MAX_TURNS_AT_ONE_MOMENT:
                self._turns = 0
                self._loop.nothing_ever_ends()
            return []
        events = super().select(0)
        if not events:
            self._turns = 0
            self._loop.nothing_is_ready(timeout)
        return events


def describe(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """One line a task: its name and the innermost place where it waits."""
    return "\n".join(sorted(f"  {task.get_name()} at {_place(task)}" for task in tasks))


def _place(task: asyncio.Task[Any]) -> str:
    place, awaited = "?", task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        place = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None)
    return place


async def _with_nothing_left_over(main: Coroutine[Any, Any, T]) -> T:
    result = await main
    await settle()
    leftover = asyncio.all_tasks() - {asyncio.current_task()}
    if leftover:
        raise LeftoverTasksError(f"{len(leftover)} still pending:\n{describe(leftover)}")
    return result
