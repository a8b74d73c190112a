"""The doctor's answer for a person at night: the answer first, then why, then what to do."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from proxy.telemetry.redaction import redact
from proxy.vllm.doctor.evidence import Pattern, Phase
from proxy.vllm.doctor.sizes import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from proxy.vllm.doctor.evidence import Advice, Diagnosis, EvidenceLine, RankMemory

PHASES: Mapping[Phase, str] = {
    Phase.STARTUP_WEIGHTS: "at start-up, while the weights were loaded",
    Phase.STARTUP_MEMORY_TAKEN: "at start-up: others had taken memory that the engine wanted",
    Phase.STARTUP_NO_KV_CACHE: "at start-up: nothing was left for the KV cache",
    Phase.STARTUP_KV_BELOW_ONE_REQUEST: "at start-up: the KV cache would not hold one request",
    Phase.STARTUP_WARMUP: "at start-up, while the sampler or pooler was warmed up",
    Phase.STARTUP_GRAPH_CAPTURE: "at start-up, while CUDA graphs were captured",
    Phase.STARTUP_PROFILING: "at start-up, while memory was measured",
    Phase.PREFILL: "while serving, in the activations of a prefill",
    Phase.MULTIMODAL_ENCODER: "while images, video or audio were encoded",
    Phase.LOGITS: "while logits or log probabilities were computed",
    Phase.LORA: "while LoRA adapters were loaded or applied",
    Phase.KV_EXHAUSTION: "no OOM of the card: the KV cache is full and requests are preempted",
    Phase.DECODE: "while serving, in decode",
    Phase.FRAGMENTATION: "memory was there, but in pieces",
    Phase.HOST_MEMORY: "the host's memory ran out, not the card's",
    Phase.SHARED_MEMORY: "shared memory was full (see --shm-size), not the card's",
    Phase.NOT_OOM: "no memory ran out",
    Phase.UNKNOWN: "the evidence does not say when",
}
_PATTERNS = {
    Pattern.TRANSIENT: "transient: a short peak",
    Pattern.STEADY: "steady: a level or a climb that stays",
    Pattern.UNKNOWN: "unknown",
}
_VERDICTS = {True: "OUT OF MEMORY", False: "NO OUT-OF-MEMORY FOUND", None: "NOT ENOUGH EVIDENCE"}
_NOT_THE_CARDS = frozenset({Phase.HOST_MEMORY, Phase.SHARED_MEMORY})
_STYLES = {True: "bold red", False: "bold green", None: "bold yellow"}
_INDENT = "     "


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    """The first line is the answer; evidence lines are never cut or wrapped by us."""
    verdict = Text(_verdict(diagnosis), _STYLES[diagnosis.oom])
    _say(console, Text.assemble(verdict, ": ", diagnosis.cause))
    console.print()
    for label, value in (
        ("phase", f"{diagnosis.phase.value}: {PHASES[diagnosis.phase]}"),
        ("pattern", _PATTERNS[diagnosis.pattern]),
        ("confidence", diagnosis.confidence.value),
    ):
        _say(console, Text.assemble((f"{label:<12}", "dim"), value))
    if diagnosis.ranks:
        console.print()
        console.print(_cards(diagnosis.ranks))
    _section(console, "Evidence", (_evidence(line) for line in diagnosis.evidence))
    _section(console, "What to do, in this order", _steps(console, diagnosis.advice))
    _section(console, "What would confirm it", _bullets(console, diagnosis.confirm))
    _section(console, "Also", _bullets(console, diagnosis.notes))


def _verdict(diagnosis: Diagnosis) -> str:
    if diagnosis.oom is False and diagnosis.phase in _NOT_THE_CARDS:
        return "NOT THE CARD'S MEMORY"
    return _VERDICTS[diagnosis.oom]


def as_object(diagnosis: Diagnosis, unreadable: Mapping[str, str]) -> dict[str, Any]:
    """The object of `--json`, as docs/doctor.md describes it. Sizes are bytes."""
    return {
        "oom": diagnosis.oom,
        "phase": diagnosis.phase.value,
        "pattern": diagnosis.pattern.value,
        "cause": diagnosis.cause,
        "ranks": [_rank_object(rank) for rank in diagnosis.ranks],
        "evidence": [
            {"file": line.file, "line": line.line, "text": redact(line.text)}
            for line in diagnosis.evidence
        ],
        "advice": [
            {"set": step.set, "value": step.value, "why": step.why, "costs": step.costs}
            for step in diagnosis.advice
        ],
        "confidence": diagnosis.confidence.value,
        "confirm": list(diagnosis.confirm),
        "notes": list(diagnosis.notes),
        "unreadable": [{"file": name, "why": why} for name, why in unreadable.items()],
    }


def _rank_object(rank: RankMemory) -> dict[str, Any]:
    return {
        "index": rank.index,
        "rank": rank.rank,
        "requested_bytes": rank.requested,
        "free_bytes": rank.free,
        "in_use_bytes": rank.in_use,
        "total_bytes": rank.total,
        "others_bytes": rank.others,
        "non_torch_bytes": rank.non_torch,
        "reserved_unallocated_bytes": rank.reserved_unallocated,
        "peak_bytes": rank.peak,
    }


_COLUMNS = (
    ("asked for", "requested"),
    ("free", "free"),
    ("this process", "in_use"),
    ("others", "others"),
    ("outside torch", "non_torch"),
    ("torch holds unused", "reserved_unallocated"),
    ("peak seen", "peak"),
    ("total", "total"),
)


def _cards(ranks: Sequence[RankMemory]) -> Table:
    """Columns that no card tells are left out."""
    told = [(title, name) for title, name in _COLUMNS if any(_has(rank, name) for rank in ranks)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("card", no_wrap=True)
    for title, _ in told:
        table.add_column(title, justify="right")
    for rank in ranks:
        sizes = (getattr(rank, name) for _, name in told)
        table.add_row(Text(_card(rank)), *("-" if s is None else readable(s) for s in sizes))
    return table


def _has(rank: RankMemory, name: str) -> bool:
    return getattr(rank, name) is not None


def _card(rank: RankMemory) -> str:
    gpu = "GPU ?" if rank.index is None else f"GPU {rank.index}"
    return f"{gpu} ({rank.rank})" if rank.rank else gpu


def _evidence(line: EvidenceLine) -> Text:
    return Text.assemble(
        "  ", (f"{line.file}:{line.line}", "cyan"), f"  {redact(line.text).strip()}"
    )


def _steps(console: Console, advice: Iterable[Advice]) -> Iterable[Text]:
    for number, step in enumerate(advice, start=1):
        what = step.set if step.value is None else f"{step.set} {step.value}"
        if step.value is not None and step.set.isupper():
            what = f"{step.set}={step.value}"
        yield Text.assemble(f"{number:>3}. ", (what, "bold"))
        yield Text(_wrapped(console, step.why))
        if step.costs:
            yield Text(_wrapped(console, f"costs: {step.costs}"), "dim")


def _bullets(console: Console, lines: Iterable[str]) -> Iterable[Text]:
    for line in lines:
        yield Text(_wrapped(console, line, "  - ", "    "))


def _wrapped(console: Console, text: str, first: str = _INDENT, rest: str = _INDENT) -> str:
    return textwrap.fill(
        text,
        max(40, min(console.width, 100)),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _section(console: Console, title: str, lines: Iterable[Text]) -> None:
    said = list(lines)
    if said:
        console.print()
        _say(console, Text(title, "bold"))
        for line in said:
            _say(console, line)


def _say(console: Console, line: Text) -> None:
    console.print(line, soft_wrap=True)
