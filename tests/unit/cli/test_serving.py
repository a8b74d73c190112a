"""What every process that serves does at its start."""

from __future__ import annotations

import gc
import logging
import resource
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli import serving as module
from proxy.edge.server import Address, bind
from proxy.telemetry.access_log import AccessLog
from proxy.telemetry.line_writer import LineWriter
from proxy.telemetry.otel_spans import SpanWriter
from proxy.telemetry.trace_file import TraceFile
from tests.support.gateway_in_memory import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LineWriter]:
    with closing(LineWriter.to_file(tmp_path / "log")) as writer:
        yield writer


# Open files --------------------------------------------------------------------------------------


class Limits:
    """Stands for the limits of the process."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def get(self, _which: int) -> tuple[int, int]:
        return self.now

    def set(self, _which: int, limits: tuple[int, int]) -> None:
        self.now = limits


@pytest.mark.parametrize("hard", [100, 100_000, resource.RLIM_INFINITY])
def test_as_many_files_as_allowed_may_be_open(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(64, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    module.raise_descriptor_limit()
    assert limits.now[0] == hard or hard == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("hard", "engines", "warns"),
    [(400, 1, False), (400, 3, True), (100_000, 3, False), (resource.RLIM_INFINITY, 3, False)],
)
def test_too_few_files_for_the_engines_that_were_found_are_said(
    hard: int,
    engines: int,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many a host name turned out to be."""
    monkeypatch.setattr(resource, "getrlimit", Limits(hard, hard).get)
    chosen = settings(max_in_flight=100, max_queue_depth=50)
    with bind(Address("127.0.0.1", 0, "")) as bound:
        module.announce(chosen, [f"http://vllm#{n}" for n in range(engines)], bound, bound)
    assert bool(caplog.records) is warns
    if warns:
        assert "only 400 open files are allowed" in caplog.text
        assert "300 seats and 50 waiting places" in caplog.text


def test_no_core_is_dumped_unless_somebody_asks_for_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limits(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    module.no_core_dumps()
    assert limits.now == (0, resource.RLIM_INFINITY)


@pytest.mark.parametrize(
    ("level", "traced", "kinds"),
    [
        ("info", False, [AccessLog]),
        ("debug", True, [AccessLog, TraceFile]),
        ("warning", False, []),
        ("error", True, [TraceFile]),
    ],
)
def test_requests_are_recorded_where_somebody_reads_them(
    level: str, traced: bool, kinds: list[type], writer: LineWriter
) -> None:
    chosen, trace = settings(log_level=level), writer if traced else None
    with ExitStack() as stack:
        sinks = module.record_sinks(chosen, writer, trace, 0.0, stack)
    assert [type(sink) for sink in sinks] == kinds


def test_where_a_collector_is_named_there_are_spans_too_and_they_are_closed(
    writer: LineWriter,
) -> None:
    chosen = settings(log_level="error", otlp_endpoint="http://127.0.0.1:1")
    with ExitStack() as stack:
        (spans,) = module.record_sinks(chosen, writer, None, 0.0, stack)
    assert isinstance(spans, SpanWriter)


@pytest.mark.parametrize(
    ("bound_to", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")]
)
def test_a_listener_is_shown_as_one_would_type_it(bound_to: str, shown: str) -> None:
    with bind(Address(bound_to, 0, "")) as bound:
        assert module.reachable(bound) == (shown, bound.getsockname()[1])


def test_of_several_engines_the_number_is_said_and_the_seats_of_one_and_of_all() -> None:
    chosen = settings(max_in_flight=57)
    one, two = ["http://one"], ["http://one", "http://two"]
    assert module.seats_in_words(chosen, one) == "http://one: 57 seats"
    assert module.seats_in_words(chosen, two) == "2 engines: 57 seats in each, 114 in all"


def test_a_listener_that_cannot_be_had_names_its_settings() -> None:
    with bind(Address("127.0.0.1", 0, "")) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(click.ClickException, match="SLUICE_ADMIN_HOST, SLUICE_ADMIN_PORT"):
            module.bind_listener("127.0.0.1", port, "SLUICE_ADMIN_")


def test_a_trace_is_opened_where_one_is_wanted(tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert module.open_trace(settings(), stack) is None
        trace = module.open_trace(settings(trace_file=tmp_path / "trace"), stack)
        assert trace is not None
        trace.write(b"{}\n")
    assert (tmp_path / "trace").read_bytes() == b"{}\n"


def test_a_client_may_be_idle_for_longer_than_a_load_balancer_waits() -> None:
    limits = module.connection_limits(settings(body_timeout=7, write_timeout=8))
    assert (limits.request_s, limits.write_s) == (7, 8)
    assert limits.idle_s > 60


def test_the_log_goes_through_a_writer_that_waits_for_nobody() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers.copy(), root.level
    try:
        with ExitStack() as stack:
            module.start_log(settings(log_level="warning"), stack)
            assert root.level == logging.WARNING
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(capture=False)


def test_the_collector_is_told_what_stays() -> None:
    thresholds = gc.get_threshold()
    try:
        module.settle_memory()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


# Standard output ---------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no disk that is always full")
def test_a_full_disk_costs_what_would_be_said_at_the_start_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        bind(Address("127.0.0.1", 0, "")) as bound,
        Path("/dev/full").open("w", encoding="utf-8") as full,
    ):
        monkeypatch.setattr(sys, "stdout", full)
        module.announce(settings(), ["http://vllm"], bound, bound)
        full.close()  # as the interpreter does in the end, with an exit code of its own if it fails
    assert "standard output cannot be written to" in caplog.text
