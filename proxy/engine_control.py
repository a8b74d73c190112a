"""Moves the limits of one engine as it goes up and down, fills and empties.

It stands between the poller, which knows the engine, and the controller, which counts its seats:
what the poller reads becomes a suspension, a slow start, a move of the adaptive limit, the size of
the KV budget, or another queue because of another model. Losing the engine's metrics page leaves
every limit where it is. What the gateway reports of its own requests may take the engine out too,
if there are others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.admission.limits.aimd import AimdLimit
from proxy.admission.limits.manual import ManualLimit
from proxy.admission.limits.slow_start import SlowStart
from proxy.admission.limits.tightest import TightestLimit
from proxy.admission.outcome import Reason
from proxy.admission.snapshot import UpstreamSnapshot
from proxy.admission.token_budget import TokenBudgets
from proxy.edge.engine import EngineState
from proxy.effective_limits import budgets_of_a_worker, effective_limits
from proxy.telemetry.engine_view import EngineView
from proxy.upstream.circuit_breaker import BreakerState, CircuitBreaker
from proxy.upstream.errors import UpstreamConnectError, UpstreamError
from proxy.vllm.binding_limit import BindingLimit, Occupancy, binding_limit
from proxy.vllm.counter_calibration import CounterCalibration
from proxy.vllm.served_models import ServedModel, longest_model_len

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.admission.controller import AdmissionController
    from proxy.admission.ports import SettableLimit
    from proxy.admission.snapshot import Demand
    from proxy.edge.token_meter import TokenMeter
    from proxy.openai_api.measure import Measured
    from proxy.openai_api.usage import Usage
    from proxy.settings import Settings
    from proxy.vllm.poller import EnginePoller, EngineStatus

_log = logging.getLogger("sluice.engine")

_LEAVING = "it was removed; its running requests go on"
_NOT_POLLED = EngineState(up=None, ready=True, reason="health is not polled")


class EngineControl:
    """`limit` and `budgets` are for the controller, which is given back by attach().

    `clock` is the event loop's time(). `meter` is there only where a token limit is set, `lease`
    where other gateways share the limit.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        clock: Callable[[], float],
        meter: TokenMeter | None = None,
        lease: SettableLimit | None = None,
    ) -> None:
        self.name = name
        self._settings = settings
        self._clock = clock
        self._adaptive: AimdLimit | None = None
        if settings.adaptive:
            self._adaptive = AimdLimit(settings.max_in_flight)
        own = self._adaptive or (None if lease else ManualLimit(settings.max_in_flight))
        self._limits = [limit for limit in (lease, own) if limit is not None]
        self.limit = SlowStart(TightestLimit(*self._limits) if lease and own else self._limits[0])
        self.budgets = TokenBudgets(*budgets_of_a_worker(settings, None))
        self._calibration = CounterCalibration()
        self._breaker = CircuitBreaker()
        self.meter = meter
        self.models: tuple[ServedModel, ...] = ()
        self.last_served: tuple[ServedModel, ...] = ()
        """As `models`, and kept while the engine is down."""
        self._kv_cache_tokens: int | None = None
        self._max_concurrency: float | None = None
        self._controller: AdmissionController | None = None
        self._poller: EnginePoller | None = None
        self.is_leaving = False
        """Removed: nothing is granted there any more, though requests may still run."""
        self.seen = asyncio.Event()
        """It has been polled once, whatever came of it."""
        self._is_suspended = False
        self._refused_for: Reason | None = None
        self._active_tenants: Callable[[], int] | None = None
        self._call_others: Callable[[], None] = lambda: None

    def attach(
        self,
        controller: AdmissionController,
        poller: EnginePoller | None,
        active_tenants: Callable[[], int] | None = None,
        call_others: Callable[[], None] = lambda: None,
    ) -> None:
        """What it steers, and what it steers by. Without a poller nothing ever moves.

        `call_others`: to be called when it cannot be reached and all that serve the same are out.
        """
        self._call_others = call_others
        self._controller = controller
        self._poller = poller
        self._active_tenants = active_tenants

    def adopt(self, settings: Settings) -> None:
        """Somebody has changed them; limit_changed() of the controller is to follow."""
        self._settings = settings
        for limit in self._limits:
            limit.set_most(settings.max_in_flight)

    @property
    def in_flight(self) -> int:
        """Seats taken in this engine."""
        return self._snapshot().in_flight

    def join(self, *, unseen: bool = False) -> None:
        """Its seats are granted from now on; of one that is yet `unseen`, from the first poll on:
        it may still be loading, or serve something else than those that are there."""
        self.is_leaving = False
        if unseen:
            self.limit.shut()
        reason = self._reason_to_refuse()
        self._is_suspended = reason is not None
        models = _names(self.last_served) or None
        self._attached().add_upstream(self.name, self.limit, self.budgets, models, reason)

    def leave(self, when_empty: Callable[[], None]) -> None:
        """No more seats are granted there. It goes on listening to the poller, and may join()
        again."""
        self.is_leaving = True
        self._attached().remove_upstream(self.name, when_empty)

    def demand(self) -> Demand:
        """Of seats in this engine; no more than it may carry by what it shows of itself."""
        demand = self._attached().demand(self.name)
        if self._adaptive is None:
            return demand
        most = max(0, self._adaptive.seats - demand.taken)
        return demand._replace(waiting=min(demand.waiting, most))

    # What the poller calls

    def status_changed(self, status: EngineStatus) -> None:
        """The engine went up or down, stalled or moved on."""
        was_down = self._refused_for is Reason.UPSTREAM_UNAVAILABLE
        self._refused_for = None
        if status.refuses:
            stalled = status.stalled
            self._refused_for = Reason.UPSTREAM_STALLED if stalled else Reason.UPSTREAM_UNAVAILABLE
            if self._adaptive is not None and not status.up:
                self._adaptive.engine_restarted()
        elif was_down:
            self._breaker = CircuitBreaker()  # what runs there now is another engine
        self._learn_models(status)  # first: who waits for another model must not meet this one
        self._suspend_or_resume()

    def status_read(self, status: EngineStatus) -> None:
        """After every poll, whatever came of it."""
        self.time_passed()  # first: no fault below may leave a slow start unfinished
        now = self._clock()
        self._learn_models(status)
        self._learn_sizes(status)
        self.seen.set()
        if self.is_leaving:
            return
        if self.limit.is_shut and not status.refuses:
            self.limit.begin(now)
        if self._adaptive is not None and status.saturation is not None:
            move = self._adaptive.observe(status.saturation, self.in_flight, now)
            if move is not None:
                _log.info("engine %s: %s", self.name, move)
        self._attached().limit_changed()

    def time_passed(self) -> None:
        """At each poll, and every second while it waits for an answer."""
        self.limit.advance(self._clock())
        if self.is_leaving:
            return
        if self._breaker.state is BreakerState.OPEN:
            self._advance_breaker(is_alone=not self._attached().is_replaceable(self.name))
        self._attached().limit_changed()

    # What the gateway calls

    def report(self, failure: UpstreamError | int | None) -> None:
        """What came of a request: None if it went well, else the error, or a status that says so.
        An error that is ours says neither.

        It takes the engine out if there are others that can take over.
        """
        if self.is_leaving or (failure is None and self._breaker.is_calm):
            return
        if isinstance(failure, UpstreamError) and failure.is_ours:
            return
        controller, now = self._attached(), self._clock()
        if failure is None:
            if self._breaker.succeeded(now):
                self.limit.begin(now)
                _log.info("engine %s is back: a request went well", self.name)
                controller.limit_changed()
            return
        may_open = controller.is_replaceable(self.name)
        if isinstance(failure, UpstreamConnectError):
            if not may_open:
                self._call_others()
                may_open = controller.is_replaceable(self.name)
            opened = self._breaker.not_connected(now, failure.what, may_open=may_open)
        else:
            why = f"the last with status {failure}" if isinstance(failure, int) else failure.what
            opened = self._breaker.failed(now, why, may_open=may_open)
        if opened:
            _log.warning("engine %s is %s", self.name, self._breaker.reason)
            self._suspend_or_resume()

    def ask_again(self) -> None:
        """At once, if it is taken out: another one that serves the same cannot be reached."""
        self._advance_breaker(is_alone=True)

    def _advance_breaker(self, *, is_alone: bool) -> None:
        if self._breaker.advance(self._clock(), is_alone=is_alone):
            self.limit.probe()
            self._suspend_or_resume()

    def finished(self, measured: Measured, usage: Usage | None) -> None:
        """An answer is over whose prompt this engine has read."""
        self._calibration.finished(measured, usage)

    def _reason_to_refuse(self) -> Reason | None:
        if self._refused_for is None and self._breaker.state is BreakerState.OPEN:
            return Reason.UPSTREAM_UNAVAILABLE
        return self._refused_for

    def _suspend_or_resume(self) -> None:
        reason, was_suspended = self._reason_to_refuse(), self._is_suspended
        self._is_suspended = reason is not None
        if reason is None and was_suspended and self._breaker.state is BreakerState.CLOSED:
            self.limit.begin(self._clock())
        if self.is_leaving:
            return
        if reason is not None:
            self._attached().suspend(self.name, reason)
        elif was_suspended:
            self._attached().resume(self.name)

    def _learn_models(self, status: EngineStatus) -> None:
        self.models = status.models  # none again when the engine went down
        self.last_served = status.models or self.last_served
        if status.models and not self.is_leaving:
            self._attached().serves(self.name, _names(status.models))

    def _learn_sizes(self, status: EngineStatus) -> None:
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
        _, budget = budgets_of_a_worker(self._settings, self._kv_cache_tokens)
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

    def serves_all_of(self, other: EngineControl) -> bool:
        return _names(self.last_served) >= _names(other.last_served)

    @property
    def model_len(self) -> int | None:
        """Tokens of the longest request that the engine takes; None while that is not known."""
        return longest_model_len(self.models)

    def state(self) -> EngineState:
        if self._poller is None:
            return _NOT_POLLED
        status = self._poller.status
        if self.is_leaving:
            return EngineState(up=status.up, ready=False, reason=_LEAVING)
        if status.ready and self._breaker.state is BreakerState.OPEN:
            return EngineState(up=status.up, ready=False, reason=self._breaker.reason)
        return EngineState(up=status.up, ready=status.ready, reason=status.reason)

    def view(self) -> EngineView:
        if self._poller is None:
            return EngineView()
        status = self._poller.status
        metrics = status.metrics
        return EngineView(
            up=status.up,
            stalled=status.stalled if status.up is not None or status.stalled else None,
            running=metrics.running if metrics else None,
            waiting=metrics.waiting if metrics else None,
            kv_cache_usage=metrics.kv_cache_usage if metrics else None,
            metrics_age_s=status.metrics_age_s,
            taken_out=self._breaker.state is not BreakerState.CLOSED,
        )

    def binding_limit(self) -> BindingLimit:
        """Which limit binds first for requests as they come now, and why."""
        snapshot = self._snapshot()
        limits = effective_limits(
            self._settings,
            kv_cache_tokens=self._kv_cache_tokens,
            model_len=self.model_len,
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
        try:
            return self._attached().upstream(self.name)
        except KeyError:  # the last of its requests has ended
            return UpstreamSnapshot(self.name, in_flight=0, limit=0, suspended=True)

    def _attached(self) -> AdmissionController:
        if self._controller is None:
            raise RuntimeError("attach() comes first")
        return self._controller


def _names(models: Iterable[ServedModel]) -> frozenset[str]:
    return frozenset([model.id for model in models])
