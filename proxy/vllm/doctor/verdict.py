"""Which of all the signs is the cause: one verdict, before any advice."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from proxy.vllm.doctor.arithmetic import with_own_use
from proxy.vllm.doctor.event_phase import phase_of, sampler_sentence
from proxy.vllm.doctor.evidence import (
    Confidence,
    EngineLife,
    EvidenceLine,
    Findings,
    LogFindings,
    OomEvent,
    Phase,
    Sign,
)
from proxy.vllm.doctor.rule import DECIDES, HINT, STRONG
from proxy.vllm.doctor.signs import BY_NAME
from proxy.vllm.doctor.sizes import readable
from proxy.vllm.doctor.tracebacks import place_of

KV_IS_FULL = 0.95
KV_IS_NEARLY_FULL = 0.90
_END_IS_LOST = "what could be read shows no failure for lack of memory, and the end of it is lost"


@dataclass(frozen=True, slots=True)
class Verdict:
    oom: bool | None
    phase: Phase
    confidence: Confidence
    cause: str
    life: EngineLife | None = None
    event: OomEvent | None = None
    sign: Sign | None = None
    evidence: tuple[EvidenceLine, ...] = ()


def verdict_on(findings: Findings) -> Verdict:
    """The log first; where it does not decide, the kernel, the metrics page and the curve."""
    from_log = _on_log(findings.log) if findings.log else None
    if findings.cut and from_log and _is_quiet(from_log):
        from_log = replace(from_log, oom=None, phase=Phase.UNKNOWN, cause=_END_IS_LOST)
    if from_log and from_log.oom:
        return from_log
    return _on_kernel(findings) or _decided(from_log) or _on_gauges(findings) or _open(from_log)


def _is_quiet(verdict: Verdict) -> bool:
    return verdict.phase is Phase.NOT_OOM and verdict.sign is None


def _decided(verdict: Verdict | None) -> Verdict | None:
    """A quiet log does not outweigh a gauge that shows a full KV cache."""
    if verdict is None or verdict.oom is None:
        return None
    return None if _is_quiet(verdict) else verdict


def _open(verdict: Verdict | None) -> Verdict:
    return verdict or Verdict(
        None, Phase.UNKNOWN, Confidence.LOW, "the evidence does not say what happened"
    )


def _on_log(log: LogFindings) -> Verdict | None:
    for judge in (_accelerator_oom, _decisive, _full_kv_cache, _strong, _hinted):
        for life in reversed(log.lives):
            verdict = judge(life)
            if verdict:
                return verdict
    return _quiet(log)


def _accelerator_oom(life: EngineLife) -> Verdict | None:
    said = [sign for sign in life.signs if _is(sign, DECIDES) and BY_NAME[sign.rule].oom]
    event = first_event(life)
    if said:
        return _from_sign(life, said[0], _event_of(life, said[0]) or event)
    return _from_event(life, event) if event else None


def _event_of(life: EngineLife, sign: Sign) -> OomEvent | None:
    """The torch error that the engine's own sentence is about."""
    near = [e for e in life.events if abs(e.evidence.line - sign.evidence.line) < 400]
    return with_own_use(near[0]) if near else None


def first_event(life: EngineLife) -> OomEvent | None:
    """The innermost, earliest failure: sized before bare, with a known place before without."""
    if not life.events:
        return None
    first = life.events[0]
    near = [e for e in life.events if e.after_ready == first.after_ready]

    def worth(event: OomEvent) -> tuple[bool, bool, bool]:
        place = place_of(event.frames, sized=event.sized)
        return event.sized, place is not None, event.spelling == "torch"

    return with_own_use(max(near, key=worth))


def _from_sign(life: EngineLife, sign: Sign, event: OomEvent | None) -> Verdict:
    rule = BY_NAME[sign.rule]
    found = phase_of(event, life) if event else None
    if event and found and found.phase is Phase.STARTUP_MEMORY_TAKEN:
        return _from_event(life, event, extra=(sign.evidence,))
    lines = (event.evidence,) if event else ()
    explained = sampler_sentence(event, life) if event and "requests" in sign.numbers else None
    return Verdict(
        rule.oom,
        rule.phase,
        Confidence.HIGH,
        f"{rule.says}: {explained}" if explained else rule.says,
        life,
        event,
        sign,
        _unique((sign.evidence, *lines)),
    )


def _from_event(life: EngineLife, event: OomEvent, extra: tuple[EvidenceLine, ...] = ()) -> Verdict:
    found = phase_of(event, life)
    asked = f"{readable(event.requested)} were asked for" if event.sized else "memory ran out"
    left = f" with {readable(event.free)} free" if event.free is not None else ""
    dump = tuple(sign.evidence for sign in life.signs if sign.step)
    return Verdict(
        found.phase is not Phase.HOST_MEMORY,
        found.phase,
        found.confidence,
        f"{asked}{left}: {found.because}",
        life,
        event,
        None,
        _unique((event.evidence, *extra, *dump[:1])),
    )


def _decisive(life: EngineLife) -> Verdict | None:
    return next((_plain(life, sign) for sign in life.signs if _is(sign, DECIDES)), None)


def _plain(life: EngineLife, sign: Sign) -> Verdict:
    rule = BY_NAME[sign.rule]
    sure = {DECIDES: Confidence.HIGH, STRONG: Confidence.MEDIUM}.get(rule.strength, Confidence.LOW)
    return Verdict(False, rule.phase, sure, rule.says, life, None, sign, (sign.evidence,))


def _full_kv_cache(life: EngineLife) -> Verdict | None:
    stats = life.stats
    preempted = [sign for sign in life.signs if sign.rule == "preempted (V0)"]
    usage = stats.peak_kv_usage or 0.0
    thrown_out = bool(preempted) or (usage >= KV_IS_NEARLY_FULL and bool(stats.preemptions))
    if not thrown_out and (usage < KV_IS_FULL or not stats.peak_waiting):
        return None
    lines = [sign.evidence for sign in preempted[:2]]
    if stats.peak_line and usage >= KV_IS_NEARLY_FULL:
        lines.append(stats.peak_line)
    sure = Confidence.HIGH if preempted or stats.preemptions else Confidence.MEDIUM
    thrown = "sequences were preempted" if preempted or stats.preemptions else "requests waited"
    return Verdict(
        False,
        Phase.KV_EXHAUSTION,
        sure,
        f"the KV cache was full (peak {usage:.0%}) and {thrown}; no allocation failed",
        life,
        None,
        preempted[0] if preempted else None,
        tuple(lines),
    )


def _strong(life: EngineLife) -> Verdict | None:
    found = next((sign for sign in life.signs if _is(sign, STRONG)), None)
    return _plain(life, found) if found else None


def _hinted(life: EngineLife) -> Verdict | None:
    # What names memory goes before what may come of it.
    for sign in sorted(life.signs, key=lambda sign: not BY_NAME[sign.rule].oom):
        rule = BY_NAME[sign.rule]
        if rule.strength != HINT:
            continue
        verdict = _plain(life, sign)
        if rule.oom:
            return replace(verdict, oom=True)
        # A kill may be the host's memory, and may be an operator: nobody knows from the log.
        return replace(verdict, oom=None) if rule.name == "killed" else verdict
    return None


def _quiet(log: LogFindings) -> Verdict | None:
    """No sign of memory at all: another error, a death without a reason, or a good day."""
    if not log.recognised or not log.lives:
        return None
    life = log.lives[-1]
    return _another_error(life) or _silent_death(life) or _no_failure(life)


def _another_error(life: EngineLife) -> Verdict | None:
    """One that killed the engine or kept it from serving; a request's own leaves it alive."""
    died = any(sign.rule == "symptom" for sign in life.signs)
    others = [sign for sign in life.signs if sign.rule == "another error"]
    if not others or (life.facts.ready and not died):
        return None
    # A setting that is refused says which one in the line below its error.
    lines = [sign.evidence for sign in others if _is_just_below(others[0], sign)]
    return replace(
        _plain(life, others[0]), confidence=Confidence.MEDIUM, evidence=_unique(lines[:2])
    )


def _is_just_below(first: Sign, other: Sign) -> bool:
    return 0 <= other.evidence.line - first.evidence.line <= 1


def _silent_death(life: EngineLife) -> Verdict | None:
    died = next((sign for sign in life.signs if sign.rule == "symptom"), None)
    if died is None and (life.facts.ready or life.facts.graph_pool_bytes is not None):
        return None
    says = (
        "the engine died and the log does not say of what"
        if died
        else "the log ends before the engine was ready, and does not say why"
    )
    lines = (died.evidence,) if died else ()
    return Verdict(None, Phase.UNKNOWN, Confidence.LOW, says, life, sign=died, evidence=lines)


def _no_failure(life: EngineLife) -> Verdict:
    sure = Confidence.MEDIUM if life.facts.ready else Confidence.LOW
    return Verdict(False, Phase.NOT_OOM, sure, "the log shows no failure for lack of memory", life)


def _on_kernel(findings: Findings) -> Verdict | None:
    kernel = findings.kernel
    if kernel and kernel.host_kills:
        lines = tuple(kill.evidence for kill in kernel.host_kills[:3])
        says = BY_NAME["host memory (kernel)"].says
        return Verdict(False, Phase.HOST_MEMORY, Confidence.HIGH, says, evidence=lines)
    if kernel and kernel.xids and not (findings.log and findings.log.recognised):
        xid = kernel.xids[0]
        return Verdict(
            False,
            Phase.NOT_OOM,
            Confidence.MEDIUM,
            f"the driver reported Xid {xid.code} ({xid.meaning or 'a fault'}): a fault, no lack"
            f" of memory",
            evidence=tuple(x.evidence for x in kernel.xids[:3]),
        )
    return None


def _on_gauges(findings: Findings) -> Verdict | None:
    for part, preemptions, usage, lines in _gauges(findings):
        if (
            usage is not None
            and usage >= KV_IS_NEARLY_FULL
            and (preemptions or usage >= KV_IS_FULL)
        ):
            sure = Confidence.MEDIUM if preemptions else Confidence.LOW
            return Verdict(
                False,
                Phase.KV_EXHAUSTION,
                sure,
                f"{part}: the KV cache is {usage:.0%} full, {preemptions or 0:.0f} preemptions",
                evidence=lines,
            )
    return None


def _gauges(
    findings: Findings,
) -> Iterable[tuple[str, float | None, float | None, tuple[EvidenceLine, ...]]]:
    page, curve = findings.metrics, findings.curve
    if page:
        yield "the metrics page", page.preemptions, page.kv_usage, page.evidence
    if curve:
        yield "the recording", curve.preemptions, curve.peak_kv_usage, curve.evidence


def _is(sign: Sign, strength: int) -> bool:
    return BY_NAME[sign.rule].strength == strength


def _unique(lines: Iterable[EvidenceLine]) -> tuple[EvidenceLine, ...]:
    return tuple(dict.fromkeys(lines))
