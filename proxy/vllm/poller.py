"""Watches one engine: is it up, and what does it say about itself?

One task asks GET /health and then GET /metrics, again and again. Losing the metrics page loses the
figures on it and nothing else. Whether the engine is up is decided by proxy/vllm/health.py, whether
it is stuck by proxy/vllm/stall.py, and whether it has fallen silent by proxy/vllm/silence.py.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.health import Health, accepted, judge_health, judge_key
from proxy.vllm.metrics_page import EngineMetrics, parse_metrics_page
from proxy.vllm.probe import Answer, NoAnswer, Probe
from proxy.vllm.saturation import Reading, saturation_between
from proxy.vllm.served_models import (
    MAX_MODELS_BYTES,
    ServedModel,
    longest_model_len,
    served_models,
)
from proxy.vllm.silence import (
    Held,
    Silence,
    give_life_sign,
    judge_silence,
    silence_in_words,
)
from proxy.vllm.stall import Progress, judge_progress, without_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

    from proxy.admission.saturation import Saturation

_log = logging.getLogger("sluice.engine")

# Long enough for the network to say that a host is unreachable; a dead engine refuses at once.
_HEALTH_TIMEOUT_S = 5.0
_METRICS_TIMEOUT_S = 2.0
# vLLM's page has 50 kB for each engine behind it.
_MAX_PAGE_BYTES = 4 * 1024 * 1024
_KEY_CHECK_INTERVAL_S = 10.0
_MODELS_INTERVAL_S = 10.0
_NO_METRICS = EngineMetrics()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """What is known of the engine now.

    `up` is None until it has shown either. `stalled`: it makes no progress, or has fallen silent.
    `ready`: it is up, makes progress and takes our key. `reason` is the latest finding in words.
    `metrics` are the last that were read, `metrics_age_s` seconds ago; both None when there are
    none, or none of this run of the engine. `models`: what it serves, empty until that is known;
    `model_len`: tokens of the longest request that any of them takes. `saturation` is what the
    latest two pages say together; None when the latest poll brought no page, or the first.
    """

    up: bool | None
    ready: bool
    reason: str
    metrics: EngineMetrics | None
    metrics_age_s: float | None
    stalled: bool = False
    models: tuple[ServedModel, ...] = ()
    saturation: Saturation | None = None

    @property
    def model_len(self) -> int | None:
        return longest_model_len(self.models)

    @property
    def refuses(self) -> bool:
        """Requests sent now would fail or hang: they may be refused without asking the engine. Not
        so while nothing is known, nor when only our key is bad: the client's own may be good."""
        return self.up is False or self.stalled


class EnginePoller:
    """Polls from start() to stop(), one at a time; reading `status` never waits."""

    def __init__(
        self,
        root_url: str,
        api_key: str | None = None,
        on_change: Callable[[EngineStatus], None] | None = None,
        on_reading: Callable[[EngineStatus], None] | None = None,
        holding: Callable[[], Held] = lambda: Held(1),
        heard: Callable[[], bool] = lambda: False,
        on_wait: Callable[[], None] = lambda: None,
        *,
        wants_models: bool = False,
        name: str = "",
        ip: str = "",
        interval_s: float = 1.0,
        down_interval_s: float = 0.25,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`root_url` is where the engine's /health and /metrics live, without /v1 and without a
        trailing slash. The polling task calls `on_change` when `up`, `stalled` or `ready` has
        changed, and `on_reading` after every poll, whatever came of it. `holding` says what of ours
        is in the engine now: one that we ask nothing of is not stalled; `heard` whether bytes of
        answers have come from it since the last call. `on_wait` is called every `interval_s` while
        an answer is awaited, for what goes on with time. The models that it serves are asked for
        only if `wants_models`. While the engine is down it is asked every `down_interval_s`. `name`
        is the engine's in log lines, by default `root_url`; `ip` is where to connect to, in place
        of looking up the URL's host.
        """
        self._root_url = root_url
        self._name = name or root_url
        self._ip = ip
        self._api_key = api_key
        self._on_change = on_change
        self._on_reading = on_reading
        self._holding = holding
        self._heard = heard
        self._on_wait = on_wait
        self._interval_s = interval_s
        self._down_interval_s = down_interval_s
        self._transport = transport
        self._health = Health()
        self._reading: Reading | None = None
        self._saturation: Saturation | None = None
        self._progress = Progress()
        self._silence = Silence()
        self._answers_health = False
        self._next_key_check = 0.0
        self._wants_models = wants_models
        self._models: tuple[ServedModel, ...] = ()
        self._next_models_read = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._told = _what_is_told(self.status)

    @property
    def status(self) -> EngineStatus:
        reading, age_s = self._reading, None
        if reading is not None and self._loop is not None:
            age_s = self._loop.time() - reading.at
        up, stall = self._health.up, self._stall
        return EngineStatus(
            up=up,
            stalled=stall is not None,
            ready=up is True and not (stall or self._health.key_refused),
            reason=(stall or self._health).reason,
            metrics=reading.metrics if reading else None,
            metrics_age_s=age_s,
            models=self._models,
            saturation=self._saturation,
        )

    @property
    def _stall(self) -> Progress | Silence | None:
        """Why it counts as stalled."""
        if self._silence.stalled:
            return self._silence
        return self._progress if self._progress.stalled else None

    def start(self) -> None:
        """Needs a running event loop. Raises RuntimeError if it is polling already."""
        if self._task is not None:
            raise RuntimeError("already started")
        self._begin()

    def move(self, ip: str) -> None:
        """The URL is served at another IP address now, by what is another engine."""
        former = self._task
        self._ip = ip
        self._forget()
        self._tell_changes()
        if former is not None:  # it may be waiting for an answer from there
            former.cancel()
            self._begin(former)

    def look_now(self) -> None:
        """Somebody knows that the engine has changed: it is asked at once, not in its turn."""
        if self._task is not None:
            self._task.cancel()
            self._begin(self._task)

    async def stop(self) -> None:
        """Ends the task and closes its connection; harmless when there is none."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _begin(self, former: asyncio.Task[None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._poll(former), name=f"poll {self._name}")

    async def _poll(self, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.gather(former, return_exceptions=True)
        async with Probe(self._root_url, self._api_key, self._transport, ip=self._ip) as probe:
            while True:
                try:
                    with _every(self._interval_s, self._wait_on):
                        await self._ask(probe)
                except Exception:  # noqa: BLE001 - a defect here must not end the watch
                    _log.exception("engine %s: polling failed", self._name)
                down = self._health.up is False
                await asyncio.sleep(self._down_interval_s if down else self._interval_s)

    async def _ask(self, probe: Probe) -> None:
        was_up = self._health.up
        answer = await probe.get("/health", _HEALTH_TIMEOUT_S)
        self._answers_health = isinstance(answer, Answer)
        health = judge_health(self._health, answer, self._api_key is not None)
        if self._api_key is not None and accepted(answer):
            health = await self._check_key(probe, health)
        if self._wants_models and health.up and not was_up:
            await self._read_models(probe)  # first: who hears that it is up sends requests at once
        self._health = health
        if health.up is False:  # what runs there next is another engine
            self._forget()
        self._saturation = None
        if isinstance(answer, Answer):
            self._listen(answer)
        self._tell_changes()
        page = await self._read_metrics(probe) if health.up else answer
        if isinstance(answer, NoAnswer):
            self._listen(answer, page)
        self._tell_changes()
        if health.up and self._wants_models:
            await self._read_models(probe)
        if self._on_reading is not None:
            self._on_reading(self.status)

    def _wait_on(self) -> None:
        """Time goes on while an answer is awaited, which may take 7 s."""
        if self._silence.stalled and self._heard():
            self._silence = give_life_sign(self._silence)
            self._tell_changes()
        self._on_wait()

    def _forget(self) -> None:
        self._reading, self._progress, self._models = None, Progress(), ()
        self._silence = Silence()
        self._next_models_read = 0.0

    def _listen(self, *answers: Answer | NoAnswer) -> None:
        """Is it silent? Says so in the log once it has been so for long, and when it is over."""
        now, before = asyncio.get_running_loop().time(), self._silence
        held, heard = self._holding(), self._heard()
        self._silence = judge_silence(before, answers, now, held=held, heard=heard)
        if words := silence_in_words(before, self._silence):
            _log.warning("engine %s %s", self._name, words)
        if before.is_long and not self._silence.is_long:
            since_s = now - (before.looked_at or now)
            silent_s = before.unanswered_s + since_s
            _log.info("engine %s answers again, after %.0f s", self._name, silent_s)

    async def _check_key(self, probe: Probe, health: Health) -> Health:
        """Seldom while the key is good, at every turn while it is not."""
        now = asyncio.get_running_loop().time()
        if not health.key_refused and now < self._next_key_check:
            return health
        self._next_key_check = now + _KEY_CHECK_INTERVAL_S
        return judge_key(health, await probe.get("/v1/models", _HEALTH_TIMEOUT_S))

    async def _read_metrics(self, probe: Probe) -> Answer | NoAnswer:
        answer = await probe.get("/metrics", _METRICS_TIMEOUT_S, _MAX_PAGE_BYTES)
        now = asyncio.get_running_loop().time()
        metrics = _page(answer)
        if metrics == _NO_METRICS:
            self._progress = without_page(self._progress, now)
            return answer
        before = self._reading
        self._reading = reading = Reading(metrics, now)
        self._saturation = saturation_between(before, reading) if before else None
        holding = self._holding().seats > 0  # what takes none does not count as running there
        self._progress = judge_progress(self._progress, metrics, reading.at, holding)
        return answer

    async def _read_models(self, probe: Probe) -> None:
        """Again and again: behind the same address there may be another model, without a pause in
        which the engine was down. Requests are refused by its length, and routed by its name."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_models_read:
            self._next_models_read = now + _MODELS_INTERVAL_S
            answer = await probe.get("/v1/models", _METRICS_TIMEOUT_S, MAX_MODELS_BYTES)
            self._models = served_models(answer) or self._models

    def _tell_changes(self) -> None:
        status = self.status
        before, self._told = self._told, _what_is_told(status)
        if self._told != before:
            self._tell(status)

    def _tell(self, status: EngineStatus) -> None:
        level = logging.INFO if status.ready else logging.WARNING
        if status.ready and not self._answers_health:
            is_mute = self._silence.unanswered_s > 0  # to all our questions
            woken_by = "bytes of an answer have come from it"
            why = woken_by if is_mute else "it answers GET /metrics"
        else:
            why = status.reason + self._silence.advice
        _log.log(level, "engine %s is %s: %s", self._name, _state(status), why)
        if self._on_change is not None:
            self._on_change(status)


def _what_is_told(status: EngineStatus) -> tuple[bool | None, bool, bool]:
    return status.up, status.stalled, status.ready


@contextmanager
def _every(interval_s: float, call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def tick() -> None:
        nonlocal timer
        timer = loop.call_later(interval_s, tick)
        call()

    timer = loop.call_later(interval_s, tick)
    try:
        yield
    finally:
        timer.cancel()


def _page(answer: Answer | NoAnswer) -> EngineMetrics:
    if isinstance(answer, NoAnswer) or answer.status != 200 or answer.body is None:
        return _NO_METRICS
    return parse_metrics_page(answer.body.decode(errors="replace"))


def _state(status: EngineStatus) -> str:
    if status.stalled:
        return "stalled"
    return "ready" if status.ready else "not ready" if status.up else "down"
