"""Of a recording counts what falls into the run, on the run's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.replay.recording_view import read_recording
from proxy.replay.result import BadResultError
from tests.support.replay_records import RUN

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    "timestamp, index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], "
    "unix_time_s, engine.kv_cache_usage, engine.preemptions_total"
)


def row(at_s: float, used: str, gpu: int = 0, kv: str = "0.5") -> str:
    unix_s = RUN.started_unix_s + at_s
    return f"2026/09/21 14:13:20.000, {gpu}, H100, {used}, 81920 MiB, 50 %, {unix_s}, {kv}, 3"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "memory.csv"


def test_samples_of_the_run_are_told_by_its_clock(recording: Path) -> None:
    rows = [
        row(-60, "1 MiB"),
        row(-1, "8192 MiB"),
        row(2.5, "40960 MiB", kv="0.9"),
        row(60, "1 MiB"),
    ]
    recording.write_text("\n".join([HEADER, *rows, ""]))
    view = read_recording(recording, RUN)
    assert view.used_share[0].times_s == [-1.0, 2.5]
    assert view.used_share[0].values == [0.1, 0.5]
    assert view.used_gib[0].values == [8.0, 40.0]
    assert view.kv_cache_usage.values == [0.5, 0.9]


def test_each_gpu_has_a_curve_and_the_engine_one(recording: Path) -> None:
    rows = [row(1, "8192 MiB"), row(1, "16384 MiB", gpu=1), row(2, "8192 MiB")]
    recording.write_text("\n".join([HEADER, *rows, ""]))
    view = read_recording(recording, RUN)
    assert view.used_gib.keys() == {0, 1}
    assert view.kv_cache_usage.times_s == [1.0, 2.0]
    assert view.preemptions.values == [3.0, 3.0]


def test_without_a_gpu_the_engine_is_still_seen(recording: Path) -> None:
    line = row(1, "[N/A]").replace("81920 MiB", "[N/A]").replace("50 %", "[N/A]")
    recording.write_text(f"{HEADER}\n{line}\n")
    view = read_recording(recording, RUN)
    assert view.used_gib == {}
    assert view.kv_cache_usage.values == [0.5]


@pytest.mark.parametrize(
    "content",
    ["", "hello\n", '{"format": "sluice-replay", "offered": 3}\n', "a,b\n1,2\n", f"{HEADER}\n"],
)
def test_a_file_that_is_no_recording_is_said_to_be_none(recording: Path, content: str) -> None:
    recording.write_text(content)
    with pytest.raises(BadResultError, match=r"memory\.csv: no recording: it has no rows of"):
        read_recording(recording, RUN)


def test_bytes_that_are_no_text_are_no_recording(recording: Path) -> None:
    recording.write_bytes(bytes(range(256)) * 50)
    with pytest.raises(BadResultError, match=r"memory\.csv: no recording"):
        read_recording(recording, RUN)


def test_a_recording_that_ended_as_the_replay_began_is_of_another_time(recording: Path) -> None:
    recording.write_text(f"{HEADER}\n{row(-2, '1 MiB')}\n{row(-1, '1 MiB')}\n")
    with pytest.raises(BadResultError, match="has no sample of the replay"):
        read_recording(recording, RUN)


def test_a_recording_of_another_time_says_of_which(recording: Path) -> None:
    recording.write_text(f"{HEADER}\n{row(-999, '1 MiB')}\n{row(-998, '1 MiB')}\n")
    with pytest.raises(BadResultError, match="of the replay of 2026-09-21") as caught:
        read_recording(recording, RUN)
    assert "a recording of 2026-09-21 13:56:41 to 13:56:42 UTC" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(recording: Path) -> None:
    with pytest.raises(BadResultError, match=r"memory\.csv: No such file"):
        read_recording(recording, RUN)
