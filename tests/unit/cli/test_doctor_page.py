from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.cli.doctor_page import PHASES, as_object, print_diagnosis
from proxy.vllm.doctor.evidence import (
    Advice,
    Confidence,
    Diagnosis,
    EvidenceLine,
    Pattern,
    Phase,
    RankMemory,
)

GIB = 1 << 30
DIAGNOSIS = Diagnosis(
    oom=True,
    phase=Phase.STARTUP_WARMUP,
    cause="the sampler's warm-up with 1024 sequences",
    confidence=Confidence.HIGH,
    pattern=Pattern.TRANSIENT,
    ranks=(RankMemory(0, "TP0", requested=2 * GIB, free=GIB), RankMemory(None, total=24 * GIB)),
    evidence=(EvidenceLine("vllm.log", 7, "[rank0]: " + "x" * 300),),
    advice=(
        Advice("--max-num-seqs", "256", "the warm-up grows with it", "fewer run at once"),
        Advice("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "pieces", ""),
        Advice("a second card", None, "there is no room", "money"),
    ),
    confirm=("start once with --max-num-seqs 128",),
    notes=("lowering --gpu-memory-utilization does not help here",),
)


def page(diagnosis: Diagnosis) -> str:
    out = io.StringIO()
    print_diagnosis(Console(file=out, width=100, highlight=False), diagnosis)
    return out.getvalue()


def test_the_page_answers_first_and_then_says_why_and_what_to_do() -> None:
    said = page(DIAGNOSIS)
    parts = (
        "OUT OF MEMORY: the sampler's warm-up",
        "startup_warmup",
        "transient",
        "GPU 0 (TP0)",
        "vllm.log:7",
        "1. --max-num-seqs 256",
        "costs: fewer run at once",
        "2. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "3. a second card",
        "start once with",
        "does not help here",
    )
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


def test_evidence_stands_on_one_line_however_long_for_grep() -> None:
    assert f"  vllm.log:7  [rank0]: {'x' * 300}" in page(DIAGNOSIS).splitlines()


def test_columns_that_no_card_tells_are_left_out() -> None:
    said = page(DIAGNOSIS)
    assert "asked for" in said
    assert "others" not in said
    assert "GPU ?" in said


@pytest.mark.parametrize(
    ("oom", "words"), [(False, "NO OUT-OF-MEMORY FOUND"), (None, "NOT ENOUGH EVIDENCE")]
)
def test_what_was_not_found_is_said_as_plainly(oom: bool | None, words: str) -> None:
    said = page(Diagnosis(oom, Phase.UNKNOWN, "nothing", Confidence.LOW))
    assert said.startswith(words)
    assert "What to do" not in said


def test_every_phase_has_its_words() -> None:
    assert set(PHASES) == set(Phase)


def test_the_object_holds_sizes_in_bytes() -> None:
    seen = as_object(DIAGNOSIS, {"x.log": "is a directory"})
    assert seen["phase"] == "startup_warmup"
    assert seen["ranks"][0]["requested_bytes"] == 2 * GIB
    assert seen["ranks"][1]["index"] is None
    assert seen["advice"][2] == {
        "set": "a second card",
        "value": None,
        "why": "there is no room",
        "costs": "money",
    }
    assert seen["unreadable"] == [{"file": "x.log", "why": "is a directory"}]


@pytest.mark.parametrize("phase", [Phase.HOST_MEMORY, Phase.SHARED_MEMORY])
def test_memory_that_ran_out_elsewhere_is_not_called_none_found(phase: Phase) -> None:
    said = page(Diagnosis(False, phase, "the host's RAM ran out", Confidence.HIGH))
    assert said.startswith("NOT THE CARD'S MEMORY: the host's RAM ran out")
