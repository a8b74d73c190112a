"""From all findings to one answer."""

from collections.abc import Iterator

from proxy.vllm.doctor.advice import advice_for
from proxy.vllm.doctor.arithmetic import non_torch_of, others_of, with_own_use
from proxy.vllm.doctor.case import Case
from proxy.vllm.doctor.evidence import Diagnosis, Findings, OomEvent, Pattern, RankMemory
from proxy.vllm.doctor.remarks import confirmation_of, notes_on
from proxy.vllm.doctor.verdict import verdict_on


def diagnose(findings: Findings) -> Diagnosis:
    """One answer from whatever evidence there is; unknown rather than a guess."""
    case = Case(verdict_on(findings), findings)
    verdict = case.verdict
    return Diagnosis(
        oom=verdict.oom,
        phase=verdict.phase,
        cause=verdict.cause,
        confidence=verdict.confidence,
        pattern=findings.curve.pattern if findings.curve else Pattern.UNKNOWN,
        ranks=tuple(_ranks(case)),
        evidence=verdict.evidence,
        advice=advice_for(case),
        confirm=confirmation_of(case),
        notes=notes_on(case),
    )


def _ranks(case: Case) -> Iterator[RankMemory]:
    """One entry a card: those that failed, with the curve's peaks; else the curve's cards alone."""
    peaks = {gpu.index: gpu for gpu in case.findings.curve.gpus} if case.findings.curve else {}
    events = _first_of_each_card(case)
    for event in events:
        gpu = peaks.get(event.gpu) if event.gpu is not None else None
        yield _rank(event, gpu.peak if gpu else None)
    if not events:
        for gpu in peaks.values():
            yield RankMemory(index=gpu.index, total=gpu.total, peak=gpu.peak)


def _first_of_each_card(case: Case) -> list[OomEvent]:
    life = case.verdict.life
    cards: dict[tuple[int | None, str | None], OomEvent] = {}
    for event in life.events if life and case.verdict.event else ():
        if event.sized and event.total is not None:
            cards.setdefault((event.gpu, event.rank), with_own_use(event))
    named = {gpu for gpu, rank in cards if rank is not None}
    # The engine's core repeats what its worker said, without naming the rank.
    return [event for (gpu, rank), event in cards.items() if rank is not None or gpu not in named]


def _rank(event: OomEvent, peak: int | None) -> RankMemory:
    return RankMemory(
        index=event.gpu,
        rank=event.rank,
        requested=event.requested,
        free=event.free,
        in_use=event.in_use,
        total=event.total,
        others=others_of(event),
        non_torch=non_torch_of(event),
        reserved_unallocated=event.reserved_unallocated,
        peak=peak,
    )
