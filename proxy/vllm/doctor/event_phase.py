"""The phase of one failed allocation: from its traceback, its sizes, and how far the engine was."""

import re
from dataclasses import dataclass

from proxy.vllm.doctor.arithmetic import (
    is_fragmented,
    is_taken_by_others,
    others_of,
    sampler_vocabulary,
)
from proxy.vllm.doctor.evidence import Confidence, EngineLife, OomEvent, Phase
from proxy.vllm.doctor.sizes import GIB, MIB, readable
from proxy.vllm.doctor.step_dump import StepDump
from proxy.vllm.doctor.tracebacks import Place, place_of

# Below it a request at run time can as well be a decode step's.
LEAST_PREFILL = 100 * MIB
# What has a more telling cause keeps it, and gaps are a note.
_CAN_BE_GAPS = frozenset({Phase.PREFILL, Phase.DECODE, Phase.UNKNOWN})
_MOST_OF_GRAPHS = 8 * GIB


@dataclass(frozen=True, slots=True)
class EventPhase:
    phase: Phase
    confidence: Confidence
    because: str


def phase_of(event: OomEvent, life: EngineLife) -> EventPhase:
    place = place_of(event.frames, sized=event.sized)
    found = _by_place(event, life, place) if place else _by_progress(event, life)
    return _corrected_by_numbers(event, life, found, place)


def max_num_seqs_of(life: EngineLife) -> int | None:
    """As the log names it: by the flag, or by the warm-up's own count."""
    requests = next((s.numbers["requests"] for s in life.signs if "requests" in s.numbers), None)
    flag = life.facts.flags.get("max_num_seqs")
    if requests:
        return int(requests)
    return int(flag) if flag and re.fullmatch("[0-9]{1,9}", flag) else None


def has_served(event: OomEvent, life: EngineLife) -> bool:
    """Private pools hold captured graphs, so they too are later than the start, and so is a batch
    that the engine wrote down.

    In sleep mode weights and KV cache lie in such pools, and say nothing.
    """
    pools = event.private_pools
    holds_graphs = pools is not None and pools < _MOST_OF_GRAPHS
    return event.after_ready or (holds_graphs and _is_complete(life)) or step_of(life) is not None


def step_of(life: EngineLife) -> StepDump | None:
    return next((sign.step for sign in life.signs if sign.step), None)


def _is_complete(life: EngineLife) -> bool:
    return life.facts.model_bytes is None or life.facts.graph_pool_bytes is not None


def _by_place(event: OomEvent, life: EngineLife, place: Place) -> EventPhase:
    if place.phase is Phase.PREFILL:
        return _forward(event, life, place)
    if place.name == "dummy run" and _knows_its_kv_cache(life):
        return _after_kv_size(life)
    sure = Confidence.MEDIUM if place.name in {"wake up", "warm-up", "device"} else Confidence.HIGH
    return EventPhase(place.phase, sure, place.means)


def _forward(event: OomEvent, life: EngineLife, place: Place) -> EventPhase:
    step = step_of(life)
    if step:
        return _by_step(step)
    if _is_sampler_sized(event, life):
        return EventPhase(Phase.LOGITS, Confidence.MEDIUM, _sampler_sentence(event, life))
    if event.requested is not None and event.requested < LEAST_PREFILL:
        return EventPhase(
            Phase.PREFILL,
            Confidence.LOW,
            f"{place.means}; {readable(event.requested)} can be a prefill's or a decode step's",
        )
    return EventPhase(Phase.PREFILL, Confidence.MEDIUM, place.means)


def _by_step(step: StepDump) -> EventPhase:
    of = "1 request" if step.requests == 1 else f"{step.requests or 'its'} requests"
    said = f"the step held {step.tokens} tokens of {of}"
    if step.has_encoder_inputs:
        return EventPhase(
            Phase.MULTIMODAL_ENCODER, Confidence.MEDIUM, f"{said}, with encoder inputs"
        )
    if step.wants_prompt_logprobs:
        return EventPhase(Phase.LOGITS, Confidence.MEDIUM, f"{said}, with prompt_logprobs")
    if step.is_decode:
        return EventPhase(Phase.DECODE, Confidence.MEDIUM, f"{said}, none of them a prompt's")
    return EventPhase(Phase.PREFILL, Confidence.HIGH, f"{said}, prompts among them")


def _by_progress(event: OomEvent, life: EngineLife) -> EventPhase:
    """Without a traceback: how far had the engine come?"""
    if has_served(event, life):
        return _while_serving(event, life)
    facts = life.facts
    if _is_sampler_sized(event, life) and facts.model_bytes is not None:
        return EventPhase(Phase.STARTUP_WARMUP, Confidence.MEDIUM, _sampler_sentence(event, life))
    if _knows_its_kv_cache(life):
        return _after_kv_size(life)
    if facts.model_bytes is not None:
        return EventPhase(
            Phase.STARTUP_PROFILING,
            Confidence.MEDIUM,
            "the weights were loaded and the size of the KV cache was not known yet",
        )
    if facts.version or facts.model or facts.flags:
        return EventPhase(
            Phase.STARTUP_WEIGHTS,
            Confidence.MEDIUM,
            "the log does not say that the weights were loaded",
        )
    return EventPhase(Phase.UNKNOWN, Confidence.LOW, "the log shows no traceback and no start")


def _knows_its_kv_cache(life: EngineLife) -> bool:
    return life.facts.kv_cache_tokens is not None or life.facts.kv_cache_bytes is not None


def _after_kv_size(life: EngineLife) -> EventPhase:
    if life.facts.graph_pool_bytes is None and life.facts.flags.get("enforce_eager") != "True":
        return EventPhase(
            Phase.STARTUP_GRAPH_CAPTURE,
            Confidence.LOW,
            "the KV cache had its size and the graphs were not captured yet",
        )
    return EventPhase(
        Phase.STARTUP_WARMUP, Confidence.LOW, "the KV cache had its size and nothing was served yet"
    )


def _while_serving(event: OomEvent, life: EngineLife) -> EventPhase:
    step = step_of(life)
    if step:
        return _by_step(step)
    if _is_sampler_sized(event, life):
        return EventPhase(Phase.LOGITS, Confidence.MEDIUM, _sampler_sentence(event, life))
    if event.requested is not None and event.requested >= LEAST_PREFILL:
        return EventPhase(
            Phase.PREFILL,
            Confidence.LOW,
            f"the engine served, and {readable(event.requested)} is more than a decode step asks"
            f" for",
        )
    return EventPhase(
        Phase.UNKNOWN,
        Confidence.LOW,
        "the engine served; neither a traceback nor the size tells more",
    )


def _corrected_by_numbers(
    event: OomEvent, life: EngineLife, found: EventPhase, place: Place | None
) -> EventPhase:
    """Arithmetic beats words."""
    starts = found.phase.startswith("startup") or bool(place and place.at_start)
    undecided = found.phase is Phase.UNKNOWN and not has_served(event, life)
    if (starts or undecided) and is_taken_by_others(event):
        held = ("" if event.in_use else "at least ") + readable(others_of(event))
        return EventPhase(
            Phase.STARTUP_MEMORY_TAKEN,
            Confidence.HIGH if starts else Confidence.MEDIUM,
            f"other processes hold {held} of the card, without which the"
            f" {readable(event.requested)} "
            f"would fit ({found.because})",
        )
    if not starts and found.phase in _CAN_BE_GAPS and is_fragmented(event):
        return EventPhase(
            Phase.FRAGMENTATION,
            Confidence.MEDIUM,
            f"torch holds {readable(event.reserved_unallocated)} that it does not use and cannot "
            f"hand out {readable(event.requested)} of it in one piece ({found.because})",
        )
    return found


def _is_sampler_sized(event: OomEvent, life: EngineLife) -> bool:
    return _sampler(event, life) is not None


def _sampler(event: OomEvent, life: EngineLife) -> tuple[int, int] | None:
    return sampler_vocabulary(event.requested, max_num_seqs_of(life), life.facts.model)


def sampler_sentence(event: OomEvent, life: EngineLife) -> str | None:
    """The sum that explains the request, if it is the sampler's."""
    return _sampler_sentence(event, life) if _is_sampler_sized(event, life) else None


def _sampler_sentence(event: OomEvent, life: EngineLife) -> str:
    seqs = max_num_seqs_of(life)
    vocabulary, each = _sampler(event, life) or (0, 0)
    return (
        f"{readable(event.requested)} is the sampler's: {seqs} sequences x a vocabulary of about "
        f"{vocabulary} x {each} bytes"
    )
