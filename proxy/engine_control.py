"""Moves the limits of one engine as it goes up and down, fills and empties.

It stands between the poller, which knows the engine, and the controller, which counts its seats:
what the poller reads becomes a suspension, a slow start, a move of the adaptive limit, or the size
of the KV budget. Losing the engine's metrics page leaves every limit where it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from proxy.admission.limits.aimd import AimdLimit
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.limits.slow_start import SlowStart
from proxy.admission.outcome import Reason
from proxy.admission.token_budget import TokenBudgets
from proxy.edge.engine import EngineState
from proxy.edge.token_meter import TokenMeter
from proxy.effective_limits import effective_limits, kv_budget
from proxy.telemetry.engine_view import EngineView
from proxy.vllm.binding_limit import BindingLimit, Occupancy, binding_limit
from proxy.vllm.counter_calibration import CounterCalibration

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.controller import AdmissionController
    from proxy.admission.snapshot import UpstreamSnapshot
    from proxy.settings import Settings
    from proxy.vllm.poller import EnginePoller, EngineStatus

_log = logging.getLogger("sluice.engine")

_NOT_POLLED = EngineState(up=None, ready=True, reason="health is not polled")


class EngineControl:
    """`limit` and `budgets` are for the controller, which is given back by attach().

    `clock` is the event loop's time(). `meter` is there only where a token limit is set.
    """

    def __init__(self, name: str, settings: Settings, clock: Callable[[], float]) -> None:
        self.name = name
        self._settings = settings
        self._clock = clock
        self._adaptive: AimdLimit | None = None
        if settings.adaptive:
            self._adaptive = AimdLimit(settings.max_in_flight)
        self.limit = SlowStart(self._adaptive or FixedLimit(settings.max_in_flight))
        self.budgets = TokenBudgets(settings.max_prefill_tokens, kv_budget(settings, None))
        self._calibration = CounterCalibration()
        self.meter: TokenMeter | None = None
        if settings.max_prefill_tokens or settings.max_kv_tokens:
            self.meter = TokenMeter(lambda: self._model_len, self._calibration.finished)
        self._model_len: int | None = None
        self._kv_cache_tokens: int | None = None
        self._max_concurrency: float | None = None
        self._controller: AdmissionController | None = None
        self._poller: EnginePoller | None = None
        self._is_suspended = False
        self._active_tenants: Callable[[], int] | None = None

    def attach(
        self,
        controller: AdmissionController,
        poller: EnginePoller | None,
        active_tenants: Callable[[], int] | None = None,
    ) -> None:
        """What it steers, and what it steers by. Without a poller nothing ever moves."""
        self._controller = controller
        self._poller = poller
        self._active_tenants = active_tenants

    @property
    def in_flight(self) -> int:
        """Seats taken in this engine."""
        return self._snapshot().in_flight

    # What the poller calls

    def status_changed(self, status: EngineStatus) -> None:
        """The engine went up or down, stalled or moved on."""
        controller = self._attached()
        if status.refuses:
            self._is_suspended = True
            reason = Reason.UPSTREAM_STALLED if status.stalled else Reason.UPSTREAM_UNAVAILABLE
            if self._adaptive is not None and not status.up:
                self._adaptive.engine_restarted()
            controller.suspend(self.name, reason)
        elif self._is_suspended:
            self._is_suspended = False
            self.limit.begin(self._clock())
            controller.resume(self.name)

    def status_read(self, status: EngineStatus) -> None:
        """After every poll, whatever came of it."""
        now = self._clock()
        self.limit.advance(now)  # first: no fault below may leave a slow start unfinished
        self._learn_sizes(status)
        if self._adaptive is not None and status.saturation is not None:
            move = self._adaptive.observe(status.saturation, self.in_flight, now)
            if move is not None:
                _log.info("engine %s: %s", self.name, move)
        self._attached().limit_changed()

    def _learn_sizes(self, status: EngineStatus) -> None:
        self._model_len = status.model_len  # None again when the engine went down
        metrics = status.metrics
        if metrics is None:
            return
        self._max_concurrency = metrics.max_concurrency or self._max_concurrency
        size = metrics.kv_cache_size_tokens
        if size and size != self._kv_cache_tokens:
            self._kv_cache_tokens = size
            self._resize_kv_budget()
        # Without a saturation these are the figures of an earlier poll; taken for new ones they
        # would say that the prompts which ended since had no tokens.
        is_new = status.saturation is not None
        pair = self._calibration.reading(metrics.prompt_tokens_total if is_new else None)
        if pair is not None and self.meter is not None:
            self.meter.estimate.learn_mean(*pair)

    def _resize_kv_budget(self) -> None:
        budget = kv_budget(self._settings, self._kv_cache_tokens)
        if budget != self.budgets.kv.limit:
            self.budgets.kv.limit = budget
            _log.info(
                "engine %s: its KV cache holds %d tokens, %s may be in flight "
                "(SLUICE_MAX_KV_TOKENS=auto)",
                self.name,
                self._kv_cache_tokens,
                budget,
            )

    # What others read

    def state(self) -> EngineState:
        if self._poller is None:
            return _NOT_POLLED
        status = self._poller.status
        return EngineState(up=status.up, ready=status.ready, reason=status.reason)

    def view(self) -> EngineView:
        if self._poller is None:
            return EngineView()
        status = self._poller.status
        metrics = status.metrics
        return EngineView(
            up=status.up,
            stalled=status.stalled if status.up is not None else None,
            running=metrics.running if metrics else None,
            waiting=metrics.waiting if metrics else None,
            kv_cache_usage=metrics.kv_cache_usage if metrics else None,
            metrics_age_s=status.metrics_age_s,
        )

    def binding_limit(self) -> BindingLimit:
        """Which limit binds first for requests as they come now, and why."""
        snapshot = self._snapshot()
        limits = effective_limits(
            self._settings,
            kv_cache_tokens=self._kv_cache_tokens,
            model_len=self._model_len,
            max_concurrency=self._max_concurrency,
        )
        seen = Occupancy(
            in_flight=snapshot.in_flight,
            kv_tokens=snapshot.kv_tokens,
            prefill_tokens=snapshot.prefill_tokens,
            tokens_per_seat=self.meter.estimate.tokens_per_seat if self.meter else None,
            tenants=self._active_tenants() if self._active_tenants else None,
        )
        return binding_limit(limits, seen)

    def _snapshot(self) -> UpstreamSnapshot:
        upstreams = self._attached().snapshot().upstreams
        return next(upstream for upstream in upstreams if upstream.name == self.name)

    def _attached(self) -> AdmissionController:
        if self._controller is None:
            raise RuntimeError("attach() comes first")
        return self._controller
