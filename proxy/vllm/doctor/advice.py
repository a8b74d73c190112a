"""What to do, phase by phase: flags in the order to try, with values from the log's own numbers."""

from collections.abc import Callable, Iterator
from types import MappingProxyType

from proxy.vllm.doctor.arithmetic import is_fragmented
from proxy.vllm.doctor.case import HEADROOM, Case
from proxy.vllm.doctor.evidence import Advice, Phase
from proxy.vllm.doctor.sizes import gib
from proxy.vllm.doctor.steps import (
    KV_COST,
    QUEUE_COST,
    fewer_sequences,
    fewer_than_states,
    fp8_kv,
    free_the_card,
    lower_utilization,
    more_cards,
    quantize,
    raise_utilization,
    seats,
    shorter,
    smaller_steps,
)


def advice_for(case: Case) -> tuple[Advice, ...]:
    """In the order to try; empty where there is nothing to change."""
    remedy = _REMEDIES.get(case.verdict.phase)
    steps = tuple(remedy(case)) if remedy else ()
    named = {step.set for step in steps}
    gaps = [step for step in _against_gaps(case) if step.set not in named]
    return (*steps, *gaps)


def _against_gaps(case: Case) -> Iterator[Advice]:
    """Never with sleep mode, whose allocator cannot do it."""
    if case.event and is_fragmented(case.event) and not case.is_on("enable_sleep_mode"):
        yield Advice(
            "PYTORCH_CUDA_ALLOC_CONF",
            "expandable_segments:True",
            "torch then grows its segments in place of leaving gaps between them",
            "nothing known; not together with sleep mode",
        )


def _taken(case: Case) -> Iterator[Advice]:
    yield free_the_card(case)
    yield Advice(
        "--gpu-memory-utilization",
        case.utilization_that_fits_free() if case.number("free") is not None else None,
        "the engine then asks for no more than what is free on this card",
        KV_COST + "; too low, and the weights do not fit",
    )
    yield Advice(
        "CUDA_VISIBLE_DEVICES",
        None,
        "another card may be free",
        "nothing, if there is one",
    )


def _weights(case: Case) -> Iterator[Advice]:
    if case.others and case.others > gib(1):
        yield free_the_card(case)
    yield quantize()
    yield more_cards(case)
    yield Advice(
        "--cpu-offload-gb",
        None,
        "a part of the weights stays in the host's RAM",
        "speed: those weights cross the bus in every step",
    )


def _no_kv(case: Case) -> Iterator[Advice]:
    if case.event:  # the planned cache could not be allocated: the plan was too large
        yield lower_utilization(case)
        return
    states = case.number("states")
    if states:
        yield fewer_than_states(int(states))
        yield seats(int(states), "below --max-num-seqs, so that nothing waits inside")
        yield raise_utilization(case, None)
        return
    kv = case.kv_bytes
    lacking = gib(1) - kv if kv is not None and kv <= 0 else None
    yield raise_utilization(case, lacking)
    yield smaller_steps(case)
    yield from fewer_sequences(case, "the profiled peak grows with it")
    yield quantize()
    yield more_cards(case)


def _below_one(case: Case) -> Iterator[Advice]:
    yield shorter(case)
    needed, available = case.number("needed"), case.number("available")
    lacking = gib(needed - available) if needed and available else None
    yield raise_utilization(case, lacking)
    if not (needed and available) or needed <= 2 * available:
        yield from fp8_kv(case)
    yield more_cards(case)


def _warmup(case: Case) -> Iterator[Advice]:
    yield from fewer_sequences(case, "the warm-up needs max_num_seqs x vocabulary x 4 to 12 bytes")
    yield seats(case.fewer_sequences(), "below --max-num-seqs, so that nothing waits inside")
    yield lower_utilization(case)


def _graphs(case: Case) -> Iterator[Advice]:
    yield lower_utilization(case)
    yield from fewer_sequences(case, "graphs are captured for batches up to it")
    yield Advice(
        "--enforce-eager",
        "",
        "no graphs, and none of their memory",
        "slower decode, most of all with few sequences",
    )


def _profiling(case: Case) -> Iterator[Advice]:
    if case.event is None:
        yield Advice(
            "one engine a card while it starts",
            None,
            "another process gave memory back while this one measured; start again, alone",
            "starts one after the other",
        )
        return
    yield smaller_steps(case)
    yield from fewer_sequences(case, "the dummy batch has max_num_seqs sequences")
    yield quantize()
    yield more_cards(case)


def _prefill(case: Case) -> Iterator[Advice]:
    yield smaller_steps(case)
    yield lower_utilization(case)
    tokens = case.whole_flag("max_num_batched_tokens")
    yield Advice(
        "SLUICE_MAX_PREFILL_TOKENS",
        str(tokens) if tokens else None,
        "no more prompt tokens at once before their first token than one step takes",
        QUEUE_COST,
    )
    if case.engine == "V0" and not case.is_on("enable_chunked_prefill"):
        yield Advice(
            "--enable-chunked-prefill",
            "",
            "this engine (V0) computes a prompt in one piece without it",
            "some scheduling cost a step",
        )
    yield Advice(
        "--max-model-len",
        None,
        "set it from the lengths that you really serve: a longer prompt is then refused",
        "longer requests are refused",
    )


def _decode(case: Case) -> Iterator[Advice]:
    yield lower_utilization(case)
    yield from fewer_sequences(case, "a decode step's activations grow with the sequences")
    yield seats(case.fewer_sequences(), "below --max-num-seqs, so that nothing waits inside")


def _encoder(case: Case) -> Iterator[Advice]:
    yield Advice(
        "--limit-mm-per-prompt",
        None,
        "fewer images or videos a request: the encoder runs over all of them at once",
        "requests with more are refused",
    )
    yield Advice(
        "--mm-processor-kwargs",
        None,
        "smaller images: for many models max_pixels, for others the number of tiles or frames",
        "detail in large images",
    )
    yield lower_utilization(case)
    yield smaller_steps(case)
    yield seats(case.max_num_seqs, "fewer requests at once bring fewer images at once")


def _logits(case: Case) -> Iterator[Advice]:
    yield lower_utilization(case)
    yield from fewer_sequences(
        case, "logits are sequences x vocabulary x 4 bytes, sorts three times that"
    )
    yield Advice(
        "--max-logprobs",
        None,
        "requests with prompt_logprobs need prompt tokens x vocabulary x 4 bytes: refuse them",
        "clients that ask for them are refused",
    )
    yield smaller_steps(case)
    yield seats(case.fewer_sequences(), "below --max-num-seqs, so that nothing waits inside")


def _lora(case: Case) -> Iterator[Advice]:
    loras = case.whole_flag("max_loras")
    yield Advice(
        "--max-loras",
        str(loras // 2) if loras and loras > 1 else None,
        "buffers for so many adapters lie on the card all the time",
        "fewer adapters in one batch",
    )
    yield Advice(
        "--max-lora-rank",
        None,
        "the buffers grow with it: no larger than your largest adapter's rank",
        "adapters of a higher rank are refused",
    )
    yield lower_utilization(case)


def _full_kv(case: Case) -> Iterator[Advice]:
    tokens = case.kv_tokens
    yield Advice(
        "SLUICE_MAX_KV_TOKENS",
        str(int(tokens * HEADROOM)) if tokens else "auto",
        "no more prompt and output tokens in flight than the KV cache holds",
        QUEUE_COST,
    )
    running = case.stats.peak_running
    usage = case.stats.peak_kv_usage
    fits = int(running / max(usage, 0.01)) if running and usage else running
    limit = min(fits, running) if fits and running else None
    yield seats(limit, "so many ran when the KV cache was full; a tenth fewer leaves room")
    yield Advice(
        "--max-num-seqs",
        str(limit) if limit else None,
        "more do not fit: they only throw each other out",
        "fewer sequences at once: more wait when there is a burst",
    )
    yield raise_utilization(case, case.total // 20 if case.total else None)
    yield from fp8_kv(case)
    yield more_cards(case)


def _fragmented(case: Case) -> Iterator[Advice]:
    yield from _against_gaps(case)
    yield lower_utilization(case)
    yield smaller_steps(case)


def _host(case: Case) -> Iterator[Advice]:
    free = case.number("node_free")
    if free is not None:
        yield Advice(
            "VLLM_CPU_KVCACHE_SPACE",
            str(max(int(free * 0.9), 1)),
            "in GiB: the CPU engine's KV cache is taken from the host's RAM",
            KV_COST,
        )
    yield Advice(
        "the container's memory limit",
        None,
        "the host's RAM ran out: the weights pass through it, once for each rank",
        "RAM",
    )
    if case.flag("swap_space"):
        yield Advice(
            "--swap-space",
            "0",
            "V0 takes it from the host's RAM, a rank each",
            "recomputed preemptions",
        )
    if case.flag("cpu_offload_gb"):
        yield Advice(
            "--cpu-offload-gb", None, "lower it: it lies in the host's RAM", "memory on the card"
        )
    yield Advice(
        "SLUICE_MAX_BODY_BYTES",
        None,
        "images and long prompts wait in RAM too, in engine and gateway",
        "larger bodies are refused",
    )


def _shm(case: Case) -> Iterator[Advice]:
    ranks = f"the {case.tensor_parallel} ranks" if case.tensor_parallel > 1 else "ranks and NCCL"
    yield Advice(
        "--shm-size (docker), or an emptyDir with medium: Memory at /dev/shm (Kubernetes)",
        "16g",
        f"{ranks} talk through /dev/shm, and docker's 64 MB are too few",
        "RAM, as far as it is used",
    )
    yield Advice(
        "--ipc=host (docker)", "", "the host's /dev/shm, which is half its RAM", "isolation"
    )


def _kernel_workspace(case: Case) -> Iterator[Advice]:
    """Of what is no lack of memory only this has a setting."""
    wanted = case.number("wanted")
    if case.verdict.sign and case.verdict.sign.rule == "workspace of a kernel":
        yield Advice(
            "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
            str(int(wanted * 2)) if wanted else None,
            "the workspace holds less than a batch needs: twice what this one asked for",
            "so much of the card, which the KV cache then lacks",
        )
        yield smaller_steps(case)


_Remedy = Callable[[Case], Iterator[Advice]]
_REMEDIES: MappingProxyType[Phase, _Remedy] = MappingProxyType(
    {
        Phase.STARTUP_MEMORY_TAKEN: _taken,
        Phase.STARTUP_WEIGHTS: _weights,
        Phase.STARTUP_NO_KV_CACHE: _no_kv,
        Phase.STARTUP_KV_BELOW_ONE_REQUEST: _below_one,
        Phase.STARTUP_WARMUP: _warmup,
        Phase.STARTUP_GRAPH_CAPTURE: _graphs,
        Phase.STARTUP_PROFILING: _profiling,
        Phase.PREFILL: _prefill,
        Phase.DECODE: _decode,
        Phase.MULTIMODAL_ENCODER: _encoder,
        Phase.LOGITS: _logits,
        Phase.LORA: _lora,
        Phase.KV_EXHAUSTION: _full_kv,
        Phase.FRAGMENTATION: _fragmented,
        Phase.HOST_MEMORY: _host,
        Phase.SHARED_MEMORY: _shm,
        Phase.NOT_OOM: _kernel_workspace,
    }
)
