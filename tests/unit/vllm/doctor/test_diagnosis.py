"""From all findings to one answer, over the deciding lines of public reports."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import (
    Confidence,
    CurveFindings,
    Findings,
    GpuCurve,
    Phase,
)
from tests.support.doctor_logs import SERVING, SITE, diagnosis_of, findings_of, oom

CASES = Path(__file__).parent / "fixtures" / "cases.txt"
OOM = {"yes": True, "no": False, "open": None}
GIB = 1 << 30


def cases() -> Iterator[tuple[str, str, str, list[str]]]:
    for part in CASES.read_text().split("\n### ")[1:]:
        head, *lines = part.splitlines()
        name, phase, oom_word = (word.strip() for word in head.split("|"))
        yield name, phase, oom_word, [frame(line) for line in lines if line]


def frame(line: str) -> str:
    return re.sub(r"@(\S+):([\w<>]+)$", rf'  File "{SITE}/\1", line 7, in \2', line)


@pytest.mark.parametrize(
    ("phase", "said", "lines"),
    [pytest.param(phase, said, lines, id=name) for name, phase, said, lines in cases()],
)
def test_a_public_report_gets_its_answer(phase: str, said: str, lines: list[str]) -> None:
    answer = diagnosis_of(*lines)
    assert (str(answer.phase), answer.oom) == (phase, OOM[said])


@pytest.mark.parametrize("lines", [pytest.param(lines, id=name) for name, _, _, lines in cases()])
def test_an_answer_never_advises_what_its_log_contradicts(lines: list[str]) -> None:
    text = "\n".join(lines)
    for step in diagnosis_of(*lines).advice:
        now = re.search(rf"'{step.set.strip('-').replace('-', '_')}': ([\d.]+)", text)
        if now and step.value and step.value != now[1]:
            rises = float(step.value) > float(now[1])
            assert rises == (step.why.startswith("RAISE") or "tensor" in step.set)


def test_no_evidence_is_no_answer() -> None:
    answer = diagnose(Findings())
    assert (answer.oom, answer.phase, answer.confidence) == (None, Phase.UNKNOWN, Confidence.LOW)


def test_each_card_that_failed_is_told_once_with_its_own_numbers() -> None:
    ranks = diagnosis_of(
        *SERVING,
        f"(Worker_TP0 pid=7) {oom(gpu=0)}",
        f"(Worker_TP1 pid=8) {oom('2.00 GiB', gpu=1)}",
        f"(EngineCore_DP0 pid=5) {oom(gpu=0)}",
    ).ranks
    assert [(card.index, card.rank) for card in ranks[:2]] == [(0, "TP0"), (1, "TP1")]
    assert ranks[1].requested == 2 * GIB
    assert ranks[0].others == 0
    assert ranks[0].non_torch == int(3.5 * GIB) - 300 * 1024 * 1024


def test_the_curves_peaks_go_with_the_cards() -> None:
    curve = CurveFindings(gpus=(GpuCurve(0, peak=79 * GIB), GpuCurve(1, peak=70 * GIB)))
    log = findings_of(*SERVING, oom(gpu=0))
    assert [card.peak for card in diagnose(Findings(log=log, curve=curve)).ranks] == [79 * GIB]
    assert len(diagnose(Findings(curve=curve)).ranks) == 2
