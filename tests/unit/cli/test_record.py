from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pytest
from click.testing import CliRunner, Result

from proxy.cli import record as command
from proxy.cli.main import sluice
from proxy.recording.nvml import NoGpuError
from proxy.recording.readings import GpuReading, Reading
from proxy.recording.table import HEADER

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from proxy.recording.recorder import Sources

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Two readings come at once; what was asked for is remembered."""
    calls: list[object] = []

    async def recorder(
        sources: Sources,
        interval_s: float,
        duration_s: float | None,
        _stop: asyncio.Event,
        take: Callable[[Reading], None],
    ) -> None:
        calls.extend([sources.engine, sources.gateway, interval_s, duration_s])
        for moment in range(2):
            cards = await sources.gpus.read()
            take(Reading(float(moment), cards, engine_up=False if sources.engine else None))

    def no_gpu() -> None:
        raise NoGpuError("Driver Not Loaded")

    monkeypatch.setattr(command, "run_recorder", recorder)
    monkeypatch.setattr(command, "open_nvml", no_gpu)
    return calls


class Cards:
    closed = False

    async def read(self) -> tuple[GpuReading, ...]:
        return (GpuReading(0, used=1 << 30, total=2 << 30),)

    def close(self) -> None:
        self.closed = True


class Nobody:
    """A probe that is not asked: the recorder is replaced."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def record(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, ["record", "--engine", "", "--sluice", "", *arguments])


def test_cards_are_recorded_and_closed(
    monkeypatch: pytest.MonkeyPatch, clean_environment: Path
) -> None:
    cards = Cards()
    monkeypatch.setattr(command, "open_nvml", lambda: cards)
    result = record()
    assert result.exit_code == 0
    lines = (clean_environment / "sluice-record.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == (HEADER, 3)
    assert "1024 MiB, 2048 MiB" in lines[1]
    assert cards.closed
    assert "2 samples in sluice-record.csv" in result.stderr


def test_without_a_card_it_is_said_once_and_recorded_all_the_same(clean_environment: Path) -> None:
    result = record("-o", "r.csv")
    assert result.stderr.count("Driver Not Loaded") == 1
    assert "[N/A]" in (clean_environment / "r.csv").read_text().splitlines()[1]


def test_nobody_who_told_anything_is_1() -> None:
    result = record()
    assert result.exit_code == 1
    assert "nobody told anything" in result.stderr


def test_who_never_answered_is_said_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "open_nvml", Cards)
    silent = ("--engine", "http://127.0.0.1:9", "--sluice", "http://127.0.0.1:8")
    result = CliRunner().invoke(sluice, ["record", *silent])
    assert result.exit_code == 0
    assert "note: no metrics of engine came from http://127.0.0.1:9: its" in result.stderr
    assert "note: no metrics of Sluice came from http://127.0.0.1:8: its" in result.stderr
    assert "note:" not in record().stderr


def test_a_foreign_file_is_2_and_one_line(clean_environment: Path) -> None:
    (clean_environment / "notes.txt").write_text("mine\n")
    result = record("-o", "notes.txt")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: notes.txt: it is not a recording")
    assert (clean_environment / "notes.txt").read_text() == "mine\n"


def test_a_folder_that_is_not_there_is_2() -> None:
    result = record("-o", "no/such/r.csv")
    assert result.exit_code == 2
    assert result.stderr == "error: no/such/r.csv: no such file or directory\n"


def test_period_and_duration_are_seconds(asked: list[object]) -> None:
    record("--interval", "0.5", "--duration", "60")
    assert asked[2:] == [0.5, 60.0]


def test_a_duration_may_have_a_unit_as_that_of_replay(asked: list[object]) -> None:
    record("--duration", "10m")
    assert asked[3] == 600.0


@pytest.mark.parametrize("written", ["0", "10x", "soon"])
def test_a_duration_that_is_none_is_told(written: str) -> None:
    result = record("--duration", written)
    assert result.exit_code == 2
    assert "'--duration'" in result.stderr


def test_engine_and_gateway_are_asked_where_they_are_said_to_be(
    asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_UPSTREAM_URLS", "http://127.0.0.1:9/v1,http://other:8000")
    result = CliRunner().invoke(sluice, ["record", "--gpu", "none", "--sluice", ""])
    assert asked[0] is not None
    assert asked[1] is None
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("", "", "http://127.0.0.1:8081"),
        ("", "9100", "http://127.0.0.1:9100"),
        ("10.0.0.7", "9100", "http://10.0.0.7:9100"),
        ("0.0.0.0", "8081", "http://127.0.0.1:8081"),
        ("::", "8081", "http://[::1]:8081"),
    ],
)
def test_the_gateway_is_asked_where_the_environment_puts_its_admin_listener(
    host: str, port: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_ADMIN_HOST", host)
    monkeypatch.setenv("SLUICE_ADMIN_PORT", port)
    roots: list[str] = []
    monkeypatch.setattr(command, "Probe", lambda root_url: roots.append(root_url) or Nobody())
    CliRunner().invoke(sluice, ["record", "--engine", ""])
    assert roots == [address]


def test_an_admin_port_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_ADMIN_PORT", "eighty")
    result = CliRunner().invoke(sluice, ["record", "--engine", ""])
    assert result.exit_code == 2
    assert "--sluice" in result.stderr


def test_a_url_that_is_none_is_told() -> None:
    result = CliRunner().invoke(sluice, ["record", "--engine", "gpu-host"])
    assert result.exit_code == 2
    assert "gpu-host" in result.stderr
