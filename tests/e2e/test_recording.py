"""A recording of a simulated engine that runs out of memory, and what the doctor makes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from proxy.vllm.memory_curve.reader import read_memory_curve
from tests.support.engine_process import MAX_MODEL_LEN, wait_until
from tests.support.simulated_vllm import running_simulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.vllm.memory_curve.reader import MemorySample
    from tests.support.engine_process import EngineProcess

_OOM_ABOVE_TOKENS = 500


@dataclass(frozen=True, slots=True)
class Incident:
    """What an engine's death left behind, and how the recording ended."""

    log: Path
    recording: Path
    exit_code: int
    said: str

    def samples(self) -> list[MemorySample]:
        return list(read_memory_curve(self.recording.read_text().splitlines()))


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    """The engine serves, dies of a long prompt, and is gone; the recording goes on."""
    folder = tmp_path_factory.mktemp("incident")
    recording = folder / "peak.csv"
    options = ("--no-enable-chunked-prefill", "--fault", f"oom:{_OOM_ABOVE_TOKENS}")
    with running_simulator(folder / "vllm.log", *options) as engine:
        arguments = ("--engine", engine.url, "--sluice", "", "--interval", "0.1")
        recorder = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "proxy", "record", *arguments, "-o", str(recording)],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: recording.exists() and "1, 0, 0" in recording.read_text(), "a row")
            _complete(engine, prompt_tokens=10)
            with pytest.raises(httpx.HTTPError):
                _complete(engine, prompt_tokens=MAX_MODEL_LEN - 100)
            wait_until(lambda: _ends_down(recording), "a row without the engine")
            recorder.send_signal(signal.SIGTERM)
            _, said = recorder.communicate(timeout=10)
        finally:
            recorder.kill()
            recorder.wait()
        yield Incident(engine.log, recording, recorder.returncode, said)


def _complete(engine: EngineProcess, prompt_tokens: int) -> None:
    body = {"model": engine.model, "prompt": "word " * prompt_tokens, "max_tokens": 5}
    with engine.client() as client:
        client.post("/v1/completions", json=body).raise_for_status()


def _ends_down(recording: Path) -> bool:
    rows = list(read_memory_curve(recording.read_text().splitlines()))
    return bool(rows) and rows[-1].extra.get("engine.up") == 0


def test_it_outlives_the_engine_and_ends_cleanly_on_sigterm(incident: Incident) -> None:
    assert incident.exit_code == 0
    assert "samples in" in incident.said


def test_card_and_engine_are_in_one_file_and_on_one_clock(incident: Incident) -> None:
    samples = incident.samples()
    assert samples[0].used is not None
    assert samples[0].total is not None
    assert [sample.extra["engine.up"] for sample in (samples[0], samples[-1])] == [1, 0]
    assert samples[-1].used is None
    moments = [sample.at_s for sample in samples]
    assert moments == sorted(moments)


def test_the_doctor_reads_log_and_recording_together(incident: Incident) -> None:
    seen = _doctor(incident.log, incident.recording)
    assert seen["unreadable"] == []
    assert (seen["oom"], seen["phase"]) == (True, "prefill")
    assert any("out of memory" in line["text"] for line in seen["evidence"])
    assert seen["pattern"] in ("transient", "steady", "unknown")


def _doctor(*paths: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "proxy", "doctor", "--json", *map(str, paths)]
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, timeout=15, check=False
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == {True: 3, False: 0, None: 4}[seen["oom"]]
    return seen
