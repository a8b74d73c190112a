from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from proxy.cli import doctor_follow
from proxy.cli.doctor_follow import FileTail, Watch
from proxy.vllm.doctor.evidence import Confidence, Diagnosis, EvidenceLine, Findings, Phase
from proxy.vllm.doctor.intake import Intake

if TYPE_CHECKING:
    from pathlib import Path

KILL = b"[1.0] Out of memory: Killed process 9 (python3) total-vm:9kB, anon-rss:8kB\n"


@pytest.fixture(autouse=True)
def _diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OOM for each kill in the kernel's log, the last one first."""

    def diagnose(findings: Findings) -> Diagnosis:
        kills = findings.kernel.host_kills[::-1] if findings.kernel else ()
        evidence = tuple(kill.evidence for kill in kills)
        return Diagnosis(
            bool(kills), Phase.HOST_MEMORY, "killed", Confidence.HIGH, evidence=evidence
        )

    monkeypatch.setattr(doctor_follow, "diagnose", diagnose)


class Script:
    """A tail that gives what it is told; a str begins the file anew."""

    name = "vllm.log"
    renewed = False

    def __init__(self, *blocks: bytes | str | None) -> None:
        self._blocks = list(blocks)

    def read(self) -> bytes | None:
        block = self._blocks.pop(0) if self._blocks else b""
        self.renewed = isinstance(block, str)
        return block.encode() if isinstance(block, str) else block


def reports(*blocks: bytes | str | None, period_s: float = 1.0) -> list[tuple[float, int]]:
    """When something was reported, and the line it was about."""
    watch = Watch(Script(*blocks), Intake())
    watch.intake.begin("vllm.log")
    looks = ((i * period_s, watch.look(i * period_s)) for i in range(len(blocks) + 10))
    return [(at_s, _line(found)) for at_s, found in looks if found]


def _line(diagnosis: Diagnosis) -> int:
    line: EvidenceLine = diagnosis.evidence[0]
    return line.line


def test_an_oom_is_reported_once_when_the_log_falls_quiet() -> None:
    assert reports(b"starting\n", b"", KILL, b"the traceback\n") == [(4.0, 2)]


def test_the_next_oom_is_reported_too() -> None:
    assert reports(KILL, b"", b"", b"restart\n", b"", KILL, b"") == [(1.0, 1), (6.0, 3)]


def test_a_log_that_is_never_quiet_is_judged_after_a_while() -> None:
    chatter = [b"still busy\n"] * 40
    assert reports(b"", KILL, *chatter, period_s=0.25)[0][0] < 6


def test_an_old_log_is_read_to_its_end_before_it_is_judged() -> None:
    assert reports(KILL, *[b"old\n"] * 20, KILL) == [(22.0, 22)]


def test_lines_count_from_1_again_in_a_file_that_began_anew() -> None:
    assert reports(b"one\ntwo\n", b"", "three\n" + KILL.decode(), b"") == [(3.0, 2)]


def test_the_end_of_standard_input_is_judged_at_once() -> None:
    assert reports(KILL, None) == [(1.0, 1)]


def test_a_file_is_followed_through_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    tail = FileTail(str(path))
    assert tail.read() == b""  # it is waited for
    path.write_bytes(b"one\n")
    assert tail.read() == b"one\n"
    path.rename(tmp_path / "vllm.log.1")
    assert tail.read() == b""  # between two files
    with (tmp_path / "vllm.log.1").open("ab") as old:
        old.write(b"late\n")
    path.write_bytes(b"two and more\n")
    assert (tail.read(), tail.renewed) == (b"late\n", False)
    assert (tail.read(), tail.renewed) == (b"two and more\n", True)
    path.write_bytes(b"cut\n")
    assert (tail.read(), tail.renewed) == (b"cut\n", True)
    assert (tail.read(), tail.renewed) == (b"", False)
    tail.close()


def test_a_directory_is_named_when_it_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as raised:
        FileTail(str(tmp_path)).read()
    assert raised.value.filename == str(tmp_path)


def test_what_cannot_be_read_is_known_once_it_is_quiet() -> None:
    watch = Watch(Script(gzip.compress(KILL)), Intake())
    watch.intake.begin("vllm.log.gz")
    assert not any(watch.look(float(now)) for now in range(4))
    assert "zcat" in (watch.problem or "")
