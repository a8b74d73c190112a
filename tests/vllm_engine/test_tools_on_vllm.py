"""`sluice record`, `replay`, `compare` and `doctor` with an engine, the real one too."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.engine_process import EngineProcess

SEQUENCES = 3
LOAD = (
    *("--arrivals", "constant:12", "--duration", "1s", "--timeout", "20s", "--prompt-salt", "1"),
    *("--prompt-tokens", "20", "--output-tokens", "12"),
)


def sluice(*arguments: str, exit_code: int = 0) -> str:
    ended = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "proxy", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == exit_code, ended.stderr
    return ended.stdout


def replayed(engine: EngineProcess, output: Path, *more: str) -> dict[str, Any]:
    sluice("replay", engine.url, *LOAD, *more, "--output", str(output))
    result: dict[str, Any] = json.loads(output.read_text())
    return result


@pytest.mark.timeout(120)
def test_every_request_of_a_replay_is_answered_with_as_many_tokens_as_asked_for(
    engine: EngineProcess, tmp_path: Path
) -> None:
    result = replayed(engine, tmp_path / "one.json")
    assert (result["offered"], result["completed"], result["failed"]) == (12, 12, 0)
    assert sum(result["series"]["output_tokens"]) == 12 * 12
    assert result["ttft_s"]["p50"] > 0


@pytest.mark.timeout(120)
def test_a_request_for_several_sequences_is_counted_with_all_their_tokens(
    engine: EngineProcess, tmp_path: Path
) -> None:
    result = replayed(engine, tmp_path / "n.json", "--body", json.dumps({"n": SEQUENCES}))
    assert (result["completed"], result["failed"]) == (12, 0)
    assert sum(result["series"]["output_tokens"]) == 12 * 12 * SEQUENCES


@pytest.mark.timeout(120)
def test_two_replays_of_one_load_can_be_compared(engine: EngineProcess, tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    hashes = {replayed(engine, file)["load"]["hash"] for file in files}
    assert len(hashes) == 1
    told = json.loads(sluice("compare", *map(str, files), "--json"))
    assert told["load_hash"] in hashes
    assert told["metrics"]["goodput_per_s"]["judgement"] == "within noise"


@pytest.mark.timeout(120)
def test_a_recording_has_the_engines_figures(engine: EngineProcess, tmp_path: Path) -> None:
    file = tmp_path / "recording.csv"
    sluice(
        *("record", "--engine", engine.url, "--sluice", "", "--gpu", "none"),
        *("--interval", "0.2", "--duration", "1.5s", "--no-chart", "-o", str(file)),
    )
    header, *rows = file.read_text().splitlines()
    names = header.split(",")
    assert len(rows) >= 3
    read = [
        dict(zip((name.strip() for name in names), row.split(","), strict=True)) for row in rows
    ]
    answered = [cells for cells in read if cells["engine.up"].strip() == "1"]
    assert answered, "a busy engine misses a look or two, not all"
    assert all(float(cells["engine.kv_cache_usage"]) >= 0 for cells in answered)


def test_of_an_engine_that_is_well_the_doctor_finds_no_fault(engine: EngineProcess) -> None:
    found = json.loads(sluice("doctor", "--json", str(engine.log)))
    assert found["oom"] is False
    assert found["phase"] == "not_oom"
    assert any("still runs" in note for note in found["notes"])
