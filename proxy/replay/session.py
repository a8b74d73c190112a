"""One replay from its options to its records: ask the engine, make the prompts, play, look back."""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.replay.calibration import assumed, calibrate_by_line, calibrate_by_words
from proxy.replay.client.lag import LATE_S, LoopLag
from proxy.replay.client.open_loop import play
from proxy.replay.client.requester import Requester
from proxy.replay.engine import Engine, EngineError, Served
from proxy.replay.percentiles import percentile
from proxy.replay.prompts import PromptWriter
from proxy.replay.requests import RequestForm, RequestWriter
from proxy.replay.schedule import LengthLimits, clamped, with_sequences
from proxy.upstream.pool import IDLE_EXPIRY_S, ConnectionPool
from proxy.upstream.port import UpstreamTimeouts

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.replay.calibration import Calibration
    from proxy.replay.client.requester import Patience
    from proxy.replay.client.tally import Tally
    from proxy.replay.outcome import RequestRecord
    from proxy.replay.requests import Route
    from proxy.replay.schedule import Schedule
    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import RawHeaders, Upstream

_CONNECT_S = 5.0
# Between the last preparation and the first arrival, so that the first is not late.
_LEAD_S = 0.1
_TRUE_ENOUGH = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How requests are made. `model` None: the first that the engine serves. `salt` None: prompts
    that no run before has sent."""

    address: UpstreamAddress
    headers: RawHeaders
    route: Route = "chat"
    model: str | None = None
    stream: bool = True
    exact_output: bool = True
    extra: dict[str, object] = field(default_factory=dict)
    salt: int | None = None
    keep_alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that is known before the first request."""

    served: Served
    form: RequestForm
    calibration: Calibration
    schedule: Schedule

    @property
    def load_hash(self) -> str:
        """Over what is asked, whatever the model is called."""
        form = self.form
        sent = (form.route, form.stream, form.exact_output, sorted(form.extra.items()))
        return self.schedule.hash_with(repr(sent))


@dataclass(slots=True)
class Played:
    """What came of it. `cpu_share`: of one core, this process's own."""

    records: list[RequestRecord]
    started_unix_s: float
    elapsed_s: float
    partial: bool
    loop_lag_p99_s: float
    cpu_share: float

    @property
    def start_lag_p99_s(self) -> float:
        lags = sorted(r.tries[0].began_s - r.arrived_s for r in self.records if r.tries)
        return percentile(lags, 99) or 0.0

    @property
    def is_late(self) -> bool:
        """The generator measured itself."""
        return max(self.loop_lag_p99_s, self.start_lag_p99_s) > LATE_S


def connect(asking: Asking, timeout_s: float) -> ConnectionPool:
    """As an SDK's client: connections are kept alive and used again, as many as it takes."""
    timeouts = UpstreamTimeouts(min(_CONNECT_S, timeout_s), timeout_s, timeout_s)
    idle_s = IDLE_EXPIRY_S if asking.keep_alive else 0.0
    return ConnectionPool(asking.address, timeouts, idle_expiry_s=idle_s)


async def prepare(
    pool: Upstream, asking: Asking, schedule: Schedule, limits: LengthLimits
) -> Prepared:
    """Raises EngineError."""
    engine = Engine(pool, asking.address, asking.headers)
    served = await engine.served(asking.model)
    form = RequestForm(asking.route, served.model, asking.stream, asking.exact_output, asking.extra)
    model_len = LengthLimits(limits.prompt, limits.output, served.max_model_len)
    return Prepared(
        served=served,
        form=form,
        calibration=await _calibrated(engine, form),
        schedule=clamped(_as_wide_as_told(schedule, asking), model_len),
    )


def _as_wide_as_told(schedule: Schedule, asking: Asking) -> Schedule:
    told = asking.extra.get("n")
    return with_sequences(schedule, told) if isinstance(told, int) and told > 0 else schedule


async def _calibrated(engine: Engine, form: RequestForm) -> Calibration:
    with suppress(EngineError):
        return await calibrate_by_words(lambda prompt: engine.count(form, prompt))
    with suppress(EngineError):
        return await calibrate_by_line(lambda prompt: engine.count_by_answer(form, prompt))
    return assumed()


def request_writer(prepared: Prepared, salt: int | None) -> RequestWriter:
    """Takes some tens of milliseconds: the text that prompts are cut from is laid out here."""
    schedule = prepared.schedule
    longest = max((arrival.prompt_tokens for arrival in schedule.arrivals), default=1)
    salt = int.from_bytes(os.urandom(6), "big") if salt is None else salt
    vocabulary = prepared.calibration.vocabulary
    prompts = PromptWriter(vocabulary, salt, longest, schedule.block_tokens)
    return RequestWriter(prepared.form, prompts)


async def play_schedule(
    pool: Upstream,
    asking: Asking,
    prepared: Prepared,
    patience: Patience,
    tally: Tally,
    seed: int,
    begun: Callable[[Callable[[], float], asyncio.Task[None]], None],
) -> Played:
    """Plays until the last request has ended, or the task that `begun` is given, with the clock of
    the replay, is cancelled."""
    writer = request_writer(prepared, asking.salt)
    zero_s, started_unix_s = time.monotonic() + _LEAD_S, time.time() + _LEAD_S

    def clock() -> float:
        return time.monotonic() - zero_s

    requester = Requester(
        pool,
        asking.address.target(prepared.form.path),
        asking.headers,
        writer.body_of,
        patience,
        tally,
        random.Random(seed),
        clock,
        time.time,
    )
    records: list[RequestRecord] = []
    lag = LoopLag(clock)
    cpu_s = time.process_time()
    playing = asyncio.create_task(
        play(prepared.schedule.arrivals, requester, clock, records.append)
    )
    watching = asyncio.create_task(lag.watch())
    begun(clock, playing)
    partial = await _was_cut_short(playing)
    watching.cancel()
    elapsed_s = max(clock(), 1e-3)
    cpu_share = (time.process_time() - cpu_s) / elapsed_s
    return Played(records, started_unix_s, elapsed_s, partial, lag.p99_s, cpu_share)


async def _was_cut_short(playing: asyncio.Task[None]) -> bool:
    await asyncio.wait([playing])
    if playing.cancelled():
        return True
    playing.result()
    return False


def notes_on(prepared: Prepared, played: Played, tally: Tally) -> list[str]:
    """What a reader must know to trust the figures, a line each."""
    notes = list(prepared.schedule.notes)
    if played.is_late:
        worst_s = max(played.loop_lag_p99_s, played.start_lag_p99_s)
        notes.append(
            f"INVALID: the load generator was late ({worst_s:.2f} s at the 99th percentile, with "
            f"{played.cpu_share:.0%} of a core): this run measured the generator, not the engine"
        )
    if prepared.calibration.worst_error is None:
        notes.append(f"lengths of prompts are {prepared.calibration.how}")
    prompts = tally.prompts
    if abs(prompts.error) > _TRUE_ENOUGH:
        notes.append(
            f"prompts were {prompts.error:+.1%} longer than asked for, as the engine counts them"
        )
    if tally.cut:
        notes.append(f"{tally.cut} requests were under way when it was broken off, and left out")
    return notes
