"""What `sluice up` says of its engine: its output, how it fares, and why it died.

On a console the engine's lines stand behind `vllm | ` and a diagnosis is a page; in JSON each line
of either is an object of its own, so that a log store can read all of it.
"""

from __future__ import annotations

import io
import logging
import re
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from proxy.cli.doctor_page import PHASES, print_diagnosis
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.logging_setup import LogLine
from proxy.telemetry.printable import printable
from proxy.telemetry.redaction import redact
from proxy.vllm.launch_plan.running_engine import engine_of_log, judge_fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.cli.up_settings import UpPlan
    from proxy.supervision.restart_policy import Death, GiveUp
    from proxy.telemetry.line_writer import LineSink
    from proxy.vllm.doctor.evidence import Diagnosis, StartUpFacts

_log = logging.getLogger("sluice.up")

_NAME = "vllm"
# The gateway asks every second how the engine is, and vLLM writes a line for each question.
_OUR_OWN_QUESTION = re.compile(r'"GET /(?:health|metrics|v1/models) HTTP/1\.1" 200\b')
_WIDTH = 100
_KILLED = 128 + signal.SIGKILL
_KERNELS_WORK = (
    "nobody here sent it SIGKILL; if the kernel did, for the host had no memory left, "
    "'journalctl -k | sluice doctor -' tells"
)


class UpReport:
    """A Report of the supervisor. `log` gets the lines of everybody, `raw` those of the engine as
    it wrote them."""

    def __init__(self, plan: UpPlan, log: LineSink, raw: LineSink | None = None) -> None:
        self._plan = plan
        self._writer = log
        self._raw = raw
        self._is_json = LogFormat(plan.settings.log_format) is LogFormat.JSON
        self._last_diagnosis: Diagnosis | None = None

    def line(self, text: str) -> None:
        if self._raw is not None:
            self._raw.write(f"{text}\n".encode())
        if not _OUR_OWN_QUESTION.search(text):
            self._write(printable(redact(text)), "info")

    def starting(self, attempt: int) -> None:
        again = f" (start {attempt})" if attempt > 1 else ""
        _log.info("starting the engine%s: %s", again, self._plan.command_line)

    def up(self, after_s: float, facts: StartUpFacts) -> None:
        _log.info("the engine is up after %.1f s%s", after_s, _kv_cache(facts))
        for remark in remarks(self._plan, facts):
            _log.log(logging.WARNING if remark.is_fault else logging.INFO, "%s", remark.text)

    def died(self, death: Death, diagnosis: Diagnosis) -> None:
        self._last_diagnosis = diagnosis
        _log.error("the engine died %s: %s", _how(death), diagnosis.cause)
        if death.exit_code == _KILLED and not diagnosis.oom:
            _log.error(_KERNELS_WORK)
        if diagnosis.oom is not None:
            self._tell(diagnosis)

    def starts_again(self, delay_s: float) -> None:
        _log.info("the engine is started again in %.1f s", delay_s)

    def gave_up(self, decided: GiveUp, death: Death) -> None:
        diagnosis = self._last_diagnosis
        cause = f": {diagnosis.cause}" if diagnosis else ""
        _log.error("giving up, %s; last %s%s", decided.why, _how(death), cause)
        if diagnosis is not None and diagnosis.oom and diagnosis.advice:
            first = diagnosis.advice[0]
            value = f" {first.value}" if first.value is not None else ""
            _log.error("to try first: %s%s, %s", first.set, value, first.why)

    def _tell(self, diagnosis: Diagnosis) -> None:
        lines = _as_lines(diagnosis) if self._is_json else _as_page(diagnosis)
        for line in lines:
            self._write(printable(redact(line)), "error", bare=True)

    def _write(self, text: str, level: str, *, bare: bool = False) -> None:
        if self._is_json:
            name = _log.name if bare else _NAME
            line = msgspec.json.encode(LogLine(datetime.now(UTC), level, name, text))
        else:
            line = (text if bare else f"{_NAME} | {text}").encode()
        self._writer.write(line + b"\n")


class Remark(msgspec.Struct, frozen=True):
    """How the limits that are in force go with what the engine got."""

    text: str
    is_fault: bool = False


def remarks(plan: UpPlan, facts: StartUpFacts) -> Iterator[Remark]:
    """`facts` is what one of the engines has printed of itself."""
    if facts.kv_cache_tokens is None:
        return
    settings = plan.settings
    seats = -(-settings.max_in_flight // plan.engines)
    fit = judge_fit(engine_of_log(facts, _NAME), seats, settings.headroom, None)
    told = fit.reasons if fit.fits is False else fit.reasons[:1]
    yield from (Remark(reason, fit.fits is False) for reason in told)
    tokens = facts.kv_cache_tokens * plan.engines
    if isinstance(settings.max_kv_tokens, int) and settings.max_kv_tokens > tokens:
        yield Remark(
            f"SLUICE_MAX_KV_TOKENS={settings.max_kv_tokens} is more than the engine's KV cache "
            f"holds, {tokens:,} tokens; auto follows it",
            is_fault=True,
        )


def _kv_cache(facts: StartUpFacts) -> str:
    if facts.kv_cache_tokens is None:
        return ""
    held = ""
    if facts.max_concurrency is not None and facts.max_concurrency_tokens is not None:
        held = (
            f", {facts.max_concurrency:g} requests of {facts.max_concurrency_tokens:,} tokens "
            f"at once"
        )
    return f"; its KV cache holds {facts.kv_cache_tokens:,} tokens{held}"


def _how(death: Death) -> str:
    when = "before it was up"
    if death.served_s is not None:
        when = f"after {death.served_s:.0f} s of service"
    return f"{when} with exit code {death.exit_code}"


def _as_page(diagnosis: Diagnosis) -> list[str]:
    page = io.StringIO()
    print_diagnosis(Console(file=page, width=_WIDTH, highlight=False), diagnosis)
    return page.getvalue().splitlines()


def _as_lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"phase {diagnosis.phase.value}: {PHASES[diagnosis.phase]}"
    for line in diagnosis.evidence:
        yield f"evidence {line.file}:{line.line}: {line.text}"
    for number, step in enumerate(diagnosis.advice, start=1):
        value = "" if step.value is None else f" {step.value}"
        yield f"advice {number}: {step.set}{value}: {step.why}"
