"""The single steps of advice, with their values computed from a case."""

import math
from collections.abc import Iterator

from proxy.vllm.doctor.case import HEADROOM, Case
from proxy.vllm.doctor.evidence import Advice
from proxy.vllm.doctor.sizes import GIB, readable

KV_COST = "a smaller KV cache: fewer sequences at once"
QUEUE_COST = "more requests wait in the gateway's queue, or are refused at once"


def in_flight(seqs: int | None) -> str | None:
    """Sluice's seats for so many sequences of the engine."""
    return str(max(int(seqs * HEADROOM), 1)) if seqs else None


def free_the_card(case: Case) -> Advice:
    held = f"{readable(case.others)} are" if case.others else "memory is"
    return Advice(
        "the card's other processes",
        None,
        f"{held} held by others: `nvidia-smi` names them; a dead engine's workers count too",
        "what those processes do",
    )


def more_cards(case: Case) -> Advice:
    return Advice(
        "--tensor-parallel-size",
        str(case.tensor_parallel * 2),
        "each card then holds half of the weights and of the KV cache",
        "twice the cards, and traffic between them; the model's heads must divide by it",
    )


def quantize() -> Advice:
    return Advice(
        "--quantization",
        None,
        "a checkpoint in FP8, AWQ or GPTQ needs a half to a quarter of the memory for weights",
        "some quality, which only your own evaluation shows",
    )


def lower_utilization(case: Case) -> Advice:
    pinned = case.whole_flag("kv_cache_memory_bytes")
    if pinned:
        less = pinned - case.missing if case.missing else None
        return Advice(
            "--kv-cache-memory-bytes",
            str(less) if less and less > 0 else None,
            "it fixes the KV cache's size, and --gpu-memory-utilization is ignored beside it",
            KV_COST,
        )
    lacking = f"{readable(case.missing)} were lacking" if case.missing else "room was lacking"
    return Advice(
        "--gpu-memory-utilization",
        case.lower_utilization(),
        f"{lacking} outside of the share that the engine plans with",
        KV_COST,
    )


def raise_utilization(case: Case, lacking: int | None) -> Advice:
    told = case.facts.host_kv_bytes
    if told is not None:
        return Advice(
            "VLLM_CPU_KVCACHE_SPACE",
            str(math.ceil((told + lacking) / GIB)) if lacking else None,
            "RAISE it, in GiB: the CPU engine's KV cache is as large as that, whatever the share",
            "RAM of the host",
        )
    return Advice(
        "--gpu-memory-utilization",
        case.raise_utilization(lacking),
        "RAISE it: the KV cache gets what weights and activations leave of this share",
        "less room for what the engine does not plan: graphs, NCCL, other processes",
    )


def fewer_sequences(case: Case, why: str) -> Iterator[Advice]:
    seqs = case.fewer_sequences()
    yield Advice(
        "--max-num-seqs",
        str(seqs) if seqs else None,
        why,
        "fewer sequences at once: more wait when there is a burst",
    )


def fewer_than_states(states: int) -> Advice:
    return Advice(
        "--max-num-seqs",
        str(states),
        "the engine's own count of what fits",
        "fewer sequences at once: more wait when there is a burst",
    )


def seats(seqs: int | None, why: str) -> Advice:
    return Advice("SLUICE_MAX_IN_FLIGHT", in_flight(seqs), why, QUEUE_COST)


def smaller_steps(case: Case) -> Advice:
    tokens = case.whole_flag("max_num_batched_tokens")
    return Advice(
        "--max-num-batched-tokens",
        str(max(tokens // 2, 512)) if tokens and tokens >= 1024 else None,
        "activations grow with the tokens of one step",
        "long prompts take more steps: a later first token",
    )


def fp8_kv(case: Case) -> Iterator[Advice]:
    if "fp8" not in (case.flag("kv_cache_dtype") or ""):
        yield Advice(
            "--kv-cache-dtype",
            "fp8",
            "half the bytes a token, where the card and the attention backend can do it",
            "a little accuracy on long contexts",
        )


def shorter(case: Case) -> Advice:
    length, estimate = case.number("length"), case.number("estimate")
    needed, available = case.number("needed"), case.number("available")
    if estimate is None and length and needed and available:
        estimate = length * available / needed * 0.98 // 16 * 16
    said = "the log's own estimate of what fits" if case.number("estimate") else "what fits"
    return Advice(
        "--max-model-len",
        str(int(estimate)) if estimate and estimate >= 1 else None,
        f"{said}; take it from the lengths that you really serve",
        "longer requests are refused",
    )
