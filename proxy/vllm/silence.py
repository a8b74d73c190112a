"""Has the engine fallen silent as a whole? It takes connections, and answers nothing. Pure rules.

A process that is stopped, swapped out or hung looks like this, for its kernel goes on taking
connections. So does an API server that is very busy, for a while; but from that one bytes of
answers come now and then. So an engine is stalled only when for half a minute it has answered no
question of the poller's, has held requests of ours, and has given none of them a byte.

Unlike a page that does not move, this cannot be a page's mistake: the verdict holds until anything
comes from the engine, also when all who waited for it have left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from proxy.vllm.probe import Fault, NoAnswer

if TYPE_CHECKING:
    from proxy.vllm.probe import Answer

SILENT_AFTER_S = 30.0
# What is longer was a silence of ours: this process was stopped, or its loop was held up. It takes
# three looks at least.
_LONGEST_GAP_S = 10.0


class Held(NamedTuple):
    """What of ours is in the engine: seats that are taken, and requests that take none."""

    seats: int
    seatless: int = 0

    def __bool__(self) -> bool:
        return any(self)

    def __str__(self) -> str:
        others = f", beside {self.seatless} of our requests that take none" if self.seatless else ""
        return f"{self.seats} of our seats are taken in it{others}"


_NOTHING = Held(seats=0)


@dataclass(frozen=True, slots=True)
class Silence:
    """`unanswered_s`: so long, in seconds, has no question been answered though there were
    connections; `unheard_s`: so long of that has it held requests of ours and given none of them a
    byte. `held` is what it held at the last look, `looked_at`; `heard`: bytes of answers had come
    by then, since the look before."""

    stalled: bool = False
    unanswered_s: float = 0.0
    unheard_s: float = 0.0
    held: Held = _NOTHING
    heard: bool = False
    looked_at: float | None = None

    @property
    def is_long(self) -> bool:
        """Somebody should be told, whatever comes of it."""
        return self.unanswered_s >= SILENT_AFTER_S

    @property
    def reason(self) -> str:
        """In words, while it is stalled."""
        return (
            f"it takes connections and has answered nothing for {self.unanswered_s:.0f} s, "
            "neither GET /health nor a request"
        )

    @property
    def advice(self) -> str:
        """For those who run it, to be added to the reason; nothing while it is not stalled."""
        if not self.stalled:
            return ""
        return (
            f". {self.held}; no more are given out. Restart it if it stays so (docs/runbooks.md, "
            "SluiceEngineStalled)"
        )


def judge_silence(
    before: Silence, answers: tuple[Answer | NoAnswer, ...], now: float, *, held: Held, heard: bool
) -> Silence:
    """What is known at `now` seconds, after these `answers` to the poller's questions."""
    faults = {answer.fault if isinstance(answer, NoAnswer) else None for answer in answers}
    if not faults <= {Fault.SILENT, Fault.UNCLEAR, Fault.BROKEN}:
        return Silence(held=held, heard=heard, looked_at=now)
    if Fault.SILENT not in faults or Fault.UNCLEAR in faults:
        # The lack may be on our side, or connections were not made or broke, all of them: that is
        # no answer, but no silence either, and the time does not count. Bytes that came do.
        if heard:
            before = give_life_sign(before)
        return replace(before, held=held, heard=heard, looked_at=now)
    gap_s = 0.0 if before.looked_at is None else now - before.looked_at
    gap_s = min(max(0.0, gap_s), _LONGEST_GAP_S)
    unheard_s = before.unheard_s
    if before.stalled or (held and before.held):
        unheard_s += gap_s
    if heard:
        unheard_s = 0.0
    return Silence(
        stalled=unheard_s >= SILENT_AFTER_S,
        unanswered_s=before.unanswered_s + gap_s,
        unheard_s=unheard_s,
        held=held,
        heard=heard,
        looked_at=now,
    )


def give_life_sign(before: Silence) -> Silence:
    """Bytes of an answer have come, while no question of the poller's is answered yet."""
    return replace(before, stalled=False, unheard_s=0.0)


def silence_in_words(before: Silence, now: Silence) -> str:
    """What is to be said of a silence that became long without a verdict; else nothing."""
    if before.is_long or now.stalled or not now.is_long:
        return ""
    said = f"has not answered GET /health for {now.unanswered_s:.0f} s, though it takes connections"
    if now.heard:
        return f"{said}. Bytes of answers come: it is busy, and gets requests as before"
    return (
        f"{said}. {now.held}. It gets requests as before, until it has held some for "
        f"{SILENT_AFTER_S:.0f} s and given none of them a byte"
    )
