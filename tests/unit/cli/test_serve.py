"""The serve command in this process. As a process of its own it is in tests/e2e."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from click.testing import CliRunner

from proxy.cli import serve as module
from proxy.cli.main import sluice
from proxy.edge.server import Address, bind
from proxy.telemetry.line_writer import LineWriter
from tests.support.gateway_in_memory import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.usefixtures("clean_environment")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, ["serve", *arguments])


@pytest.fixture
def usual_gc() -> Iterator[None]:
    """Takes back what a process that is ready to serve asks of the garbage collector."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LineWriter]:
    with closing(LineWriter.to_file(tmp_path / "log")) as writer:
        yield writer


# Before anything is served -----------------------------------------------------------------------


def test_help_says_how_to_start() -> None:
    output = invoke("--help").output
    assert "sluice serve --upstream sim" in output
    assert "SLUICE_MAX_NUM_SEQS" in output
    for flag in ("--upstream-urls", "--max-in-flight", "--queue-timeout", "--drain-timeout"):
        assert flag in output


@pytest.mark.parametrize(
    ("flag", "settings_named"),
    [
        ("--port", "SLUICE_HOST, SLUICE_PORT"),
        ("--admin-port", "SLUICE_ADMIN_HOST, SLUICE_ADMIN_PORT"),
    ],
)
def test_a_taken_port_is_one_line_that_names_the_settings(flag: str, settings_named: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        free = ["--host", "127.0.0.1", "--port", "0", "--admin-port", "0"]
        result = invoke("--max-num-seqs", "4", *free, flag, port)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert f"127.0.0.1:{port} ({settings_named})" in line


def test_without_a_limit_nothing_is_started() -> None:
    result = invoke("--port", "0")
    assert result.exit_code == 2
    assert "SLUICE_MAX_NUM_SEQS" in result.stderr


def test_an_engine_that_is_not_known_how_to_start_is_refused() -> None:
    assert invoke("--upstream", "real").exit_code == 2


class Beside:
    """Stands for the simulated engine; remembers with how many sequences it was started."""

    def __init__(self) -> None:
        self.started_with: list[int] = []
        self.running = 0

    @contextlib.contextmanager
    def __call__(self, max_num_seqs: int) -> Iterator[str]:
        self.started_with.append(max_num_seqs)
        self.running += 1
        yield "http://127.0.0.1:1234"
        self.running -= 1


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    stand_in = Beside()
    monkeypatch.setattr(module, "simulated_engine_beside", stand_in)
    return stand_in


@pytest.mark.parametrize(
    ("given", "max_num_seqs", "max_in_flight"),
    [
        ({}, 64, 57),
        ({"max_num_seqs": 10}, 10, 9),
        ({"max_in_flight": 10}, 11, 10),
        ({"max_num_seqs": 20, "max_in_flight": 10}, 20, 10),
    ],
)
def test_the_engine_beside_has_room_for_more_than_the_gateway_sends(
    given: dict[str, Any], max_num_seqs: int, max_in_flight: int, beside: Beside
) -> None:
    with ExitStack() as stack:
        overrides = module._in_front_of_simulator(given, stack)
        assert beside.started_with == [max_num_seqs]
        assert overrides["upstream_urls"] == "http://127.0.0.1:1234"
        loaded = module.load_settings(overrides)
        assert loaded.max_in_flight == max_in_flight < max_num_seqs
        assert beside.running == 1
    assert beside.running == 0


def test_with_bad_settings_no_engine_is_started(beside: Beside) -> None:
    result = invoke("--upstream", "sim", "--queue-timeout", "soon")
    assert result.exit_code == 2
    assert beside.started_with == []


def test_two_flags_that_name_an_engine_are_refused(beside: Beside) -> None:
    result = invoke("--upstream", "sim", "--upstream-urls", "http://engine:8000")
    assert result.exit_code == 2
    assert "'--upstream sim' and '--upstream-urls' name two engines" in result.output
    assert beside.started_with == []


def test_a_file_of_engines_and_a_simulated_one_are_refused(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "engines").write_text("http://engine:8000")
    monkeypatch.setenv("SLUICE_UPSTREAMS_FILE", str(tmp_path / "engines"))
    result = invoke("--upstream", "sim")
    assert result.exit_code == 2
    assert "SLUICE_UPSTREAMS_FILE" in result.output
    assert beside.started_with == []


@pytest.mark.usefixtures("beside")
def test_the_flag_for_a_simulated_engine_beats_an_engine_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_UPSTREAM_URLS", "http://engine:8000")
    with ExitStack() as stack:
        overrides = module._in_front_of_simulator({}, stack)
        assert module.load_settings(overrides).upstream_urls == ("http://127.0.0.1:1234",)


# Serving -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("usual_gc")
def test_it_serves_until_a_signal_comes(
    writer: LineWriter, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sluice")
    chosen = settings(
        upstream_urls="http://127.0.0.1:1",
        upstream_api_key="sk-secret",
        max_in_flight=3,
        max_queue_depth=5,
        queue_timeout=2.5,
    )
    sockets = bind(Address("127.0.0.1", 0, "")), bind(Address("127.0.0.1", 0, ""))
    public, admin = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)

    async def scenario() -> None:
        serving = asyncio.create_task(module._serve(chosen, sockets, writer, None))
        async with httpx.AsyncClient(trust_env=False) as client:
            while "settings: " not in caplog.text:
                await asyncio.sleep(0.01)
            assert (await client.get(f"{public}/healthz")).status_code == 200
            assert (await client.get(f"{public}/metrics")).status_code == 404
            assert "sluice_in_flight" in (await client.get(f"{admin}/metrics")).text
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    asyncio.run(scenario())
    said = capsys.readouterr().out
    assert f"serves {public} in front of http://127.0.0.1:1: 3 seats, 5 waiting places" in said
    assert "2.5 s at most in the queue" in said
    assert f"{admin}/metrics" in said
    assert "SLUICE_MAX_IN_FLIGHT=3" in caplog.text
    assert "sk-secret" not in said + caplog.text
