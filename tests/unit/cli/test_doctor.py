"""`sluice doctor`: what it takes, its exit codes, the object for scripts. What the answer is, is
tested where it is found: tests/unit/vllm/doctor."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli import doctor_answer as command
from proxy.cli.main import sluice
from proxy.vllm.doctor.evidence import Confidence, Diagnosis, EvidenceLine, Findings, Phase
from tests.support.memory_curves import curve, wavy

if TYPE_CHECKING:
    from pathlib import Path

KILL = "[1.0] Out of memory: Killed process 9 (python3) total-vm:9kB, anon-rss:8kB\n"


@pytest.fixture
def spike(tmp_path: Path) -> str:
    path = tmp_path / "gpu.log"
    used = [*wavy(18000, 50), 23000, *wavy(18000, 50)]
    path.write_text("\n".join(curve(used)) + "\n")
    return str(path)


def doctor(*arguments: str, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(sluice, ["doctor", *arguments], input=stdin)


def as_json(*arguments: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(doctor("--json", *arguments).stdout)
    return read


def answering(monkeypatch: pytest.MonkeyPatch, oom: bool | None) -> list[Findings]:
    """Replaces the diagnosis; gives the findings that it was asked about."""
    asked: list[Findings] = []

    def diagnose(findings: Findings) -> Diagnosis:
        asked.append(findings)
        line = EvidenceLine("vllm.log", 7, "[rank0]: torch.OutOfMemoryError")
        return Diagnosis(oom, Phase.PREFILL, "a long prompt", Confidence.LOW, evidence=(line,))

    monkeypatch.setattr(command, "diagnose", diagnose)
    return asked


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_key_in_the_log_is_not_on_the_page(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "torch.OutOfMemoryError: CUDA out of memory. api_key='canary', --api-key: canary\n"
    )
    result = doctor(*arguments, str(log))
    assert result.exit_code == 3
    assert "OutOfMemoryError" in result.stdout
    assert "canary" not in result.stdout


@pytest.mark.parametrize(("oom", "code"), [(False, 0), (True, 3), (None, 4)])
def test_the_exit_code_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, spike: str, oom: bool | None, code: int
) -> None:
    answering(monkeypatch, oom)
    assert doctor(spike).exit_code == doctor("--json", spike).exit_code == code


def test_the_first_line_is_the_answer_and_evidence_is_not_taken_for_markup(
    monkeypatch: pytest.MonkeyPatch, spike: str
) -> None:
    answering(monkeypatch, True)
    page = doctor(spike).stdout
    assert page.splitlines()[0] == "OUT OF MEMORY: a long prompt"
    assert "vllm.log:7  [rank0]: torch.OutOfMemoryError" in page


def test_the_object_has_all_that_the_contract_names(spike: str) -> None:
    seen = as_json(spike)
    keys = {"oom", "phase", "pattern", "cause", "ranks", "evidence", "advice", "confidence"}
    assert keys <= seen.keys()
    assert seen["pattern"] == "transient"
    assert seen["unreadable"] == []


def test_a_file_is_what_it_holds_packed_or_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spike: str
) -> None:
    asked = answering(monkeypatch, True)
    packed = tmp_path / "anything.log"
    packed.write_bytes(gzip.compress(KILL.encode()))
    assert doctor(spike, str(packed)).exit_code == 3
    assert asked[0].kernel is not None
    assert asked[0].curve is not None


def test_standard_input_is_a_source_and_is_called_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, True)
    doctor("-", stdin=KILL)
    kernel = asked[0].kernel
    assert kernel is not None
    assert kernel.host_kills[0].evidence.file == "stdin"


def test_one_unreadable_file_is_a_line_and_does_not_lose_the_rest(spike: str) -> None:
    result = doctor("--json", "no-such.log", spike)
    assert result.exit_code != 2
    assert result.stderr == "error: no-such.log: no such file or directory\n"
    seen = json.loads(result.stdout)
    assert seen["pattern"] == "transient"
    assert seen["unreadable"] == [{"file": "no-such.log", "why": "no such file or directory"}]


def test_nothing_that_could_be_read_is_2(tmp_path: Path) -> None:
    binary = tmp_path / "core"
    binary.write_bytes(bytes(range(256)) * 20)
    result = doctor(str(tmp_path), str(binary))
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first == f"error: {tmp_path}: is a directory"
    assert second.startswith(f"error: {binary}: is no text")
    assert as_json(str(binary))["oom"] is None


def test_an_empty_file_was_read_and_is_not_enough_evidence(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert doctor(str(empty)).exit_code == 4


def test_a_damaged_gzip_is_told_as_such(tmp_path: Path) -> None:
    damaged = tmp_path / "vllm.log.gz"
    damaged.write_bytes(b"\x1f\x8b\x08" + b"\xff" * 100)
    assert "damaged" in doctor(str(damaged)).stderr


def test_an_engine_that_is_not_there_is_one_line() -> None:
    result = doctor("http://127.0.0.1:9")
    assert result.exit_code == 2
    assert result.stderr == "error: http://127.0.0.1:9: connection refused (ECONNREFUSED)\n"


def test_a_url_cannot_be_followed() -> None:
    result = doctor("--follow", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "--follow watches files" in result.stderr


def test_following_standard_input_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "follow", lambda _sources, _report, _say: True)
    assert doctor("--follow", "-").exit_code == 3
