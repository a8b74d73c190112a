"""What would confirm a verdict, and what is worth knowing beside it."""

from collections.abc import Iterator
from types import MappingProxyType

from proxy.vllm.doctor.arithmetic import is_fragmented, others_of
from proxy.vllm.doctor.case import Case
from proxy.vllm.doctor.evidence import EngineLife, Pattern, Phase
from proxy.vllm.doctor.sizes import gib, readable
from proxy.vllm.doctor.verdict import KV_IS_NEARLY_FULL

_CURVE = "record the memory curve while the load comes again: `sluice record`, then `sluice replay`"
_NEXT_CURVE = (
    "after the change, record another memory curve under the same load: its peak stays lower "
    "(`sluice record`)"
)
_START = (
    "after the change, the log says `Available KV cache memory` and `Application startup complete`"
)
_WHOLE_LOG = (
    "the log from the engine's start to its end, with the traceback; `dmesg -T`; a memory curve"
)
_RUN_TIME = frozenset(
    {Phase.PREFILL, Phase.DECODE, Phase.LOGITS, Phase.MULTIMODAL_ENCODER, Phase.FRAGMENTATION}
)

_CONFIRM: MappingProxyType[Phase, tuple[str, ...]] = MappingProxyType(
    {
        Phase.STARTUP_MEMORY_TAKEN: (
            "`nvidia-smi` on that card with the engine stopped: memory in use is the others'",
        ),
        Phase.STARTUP_WEIGHTS: (
            "the checkpoint's size divided by the cards, against one card's memory",
        ),
        Phase.STARTUP_NO_KV_CACHE: (_START,),
        Phase.STARTUP_KV_BELOW_ONE_REQUEST: (_START,),
        Phase.STARTUP_WARMUP: (_START,),
        Phase.STARTUP_GRAPH_CAPTURE: ("a start with --enforce-eager: it then gets by",),
        Phase.STARTUP_PROFILING: (_START,),
        Phase.PREFILL: (_CURVE, "the prompt lengths of the minute before: a long one, or many"),
        Phase.DECODE: (_CURVE,),
        Phase.MULTIMODAL_ENCODER: ("the same load without images, video or audio", _CURVE),
        Phase.LOGITS: ("the same load without logprobs and with fewer sequences", _CURVE),
        Phase.LORA: ("a start without adapters",),
        Phase.KV_EXHAUSTION: (
            "vllm:num_preemptions_total rises, vllm:kv_cache_usage_perc is near 1",
        ),
        Phase.FRAGMENTATION: ("it comes only after hours and is gone after a restart", _CURVE),
        Phase.HOST_MEMORY: ("`dmesg -T | grep -i oom`, or the pod's last state: OOMKilled",),
        Phase.SHARED_MEMORY: ("`df -h /dev/shm` in the container while it runs",),
        Phase.UNKNOWN: (_WHOLE_LOG,),
    }
)


def confirmation_of(case: Case) -> tuple[str, ...]:
    steps = _CONFIRM.get(case.verdict.phase, ())
    curve = case.findings.curve
    if curve is None or curve.pattern is Pattern.UNKNOWN:
        return steps
    return tuple(_NEXT_CURVE if step is _CURVE else step for step in steps)


def notes_on(case: Case) -> tuple[str, ...]:
    """In no order of weight; each one holds for this case alone."""
    return tuple(note for part in _NOTES for note in part(case))


def _classic_advice(case: Case) -> Iterator[str]:
    phase = case.verdict.phase
    if phase in _RUN_TIME and case.engine != "V0":
        which = (
            "the V1 engine" if case.engine == "V1" else "vLLM's V1 engine, the default since 0.8"
        )
        yield (
            f"in {which} the KV cache is allocated at the start, so decode does not make memory "
            "grow: what failed is memory for one step. A smaller --max-num-seqs helps only as far "
            "as that step shrinks with it"
        )
    if phase is Phase.PREFILL and case.engine == "V1":
        yield "chunked prefill is on by default in V1: --enable-chunked-prefill changes nothing"
    if phase is Phase.STARTUP_WEIGHTS:
        yield (
            "--gpu-memory-utilization does not matter while weights are loaded, whatever the "
            "engine's own message says"
        )
    if phase is Phase.KV_EXHAUSTION:
        yield "preemption costs time and never kills the engine"
        if case.engine == "V0":
            yield "V0 logs only the 1st, 51st, 101st preemption: one line is not one preemption"


def _numbers(case: Case) -> Iterator[str]:
    event = case.event
    if event is None:
        return
    others = others_of(event)
    if others and others > gib(1) and case.verdict.phase is not Phase.STARTUP_MEMORY_TAKEN:
        yield f"other processes held {readable(others)} of this card at that moment"
    fragmented = case.verdict.phase is Phase.FRAGMENTATION
    if is_fragmented(event) and not fragmented:
        yield f"torch held {readable(event.reserved_unallocated)} unused: gaps may play a part"
    if fragmented and case.is_on("enable_sleep_mode"):
        yield "expandable_segments does not go together with sleep mode, so it is not advised here"
    if event.free is not None and event.requested is not None and event.free >= event.requested:
        yield (
            "more was free than was asked for: rounding and what the driver keeps explain that, "
            "it is no sign of fragmentation"
        )
    if case.flag("kv_cache_memory_bytes"):
        yield "kv_cache_memory_bytes is set: --gpu-memory-utilization is ignored beside it"


def _cards(case: Case) -> Iterator[str]:
    if case.tensor_parallel > 1 and case.verdict.oom:
        yield (
            f"tensor parallel over {case.tensor_parallel} cards: one full card is enough, so read "
            "the numbers card by card and not as a sum"
        )


def _lives(case: Case) -> Iterator[str]:
    log = case.findings.log
    life = case.verdict.life
    if log is None or life is None or len(log.lives) < 2:
        return
    failed = sum(1 for each in log.lives if each.events or _has_oom_sign(each))
    if case.verdict.oom:
        yield f"the logs show {len(log.lives)} starts of the engine, {failed} of them with an OOM"
    last = log.lives[-1]
    if case.verdict.oom and last is not life and last.facts.ready and not last.events:
        yield f"it was started again afterwards and served (from line {last.first_line})"


def _has_oom_sign(life: EngineLife) -> bool:
    return any(sign.rule in _OOM_RULES for sign in life.signs)


_OOM_RULES = frozenset(
    {
        "memory taken",
        "weights do not fit",
        "no KV cache",
        "states below max_num_seqs",
        "KV cache below one request",
        "KV cache below one request (V0)",
        "warm-up",
    }
)


def _waiting(case: Case) -> Iterator[str]:
    stats = case.stats
    usage = stats.peak_kv_usage
    if case.verdict.phase is not Phase.NOT_OOM or usage is None or usage >= KV_IS_NEARLY_FULL:
        return
    if stats.peak_waiting:
        yield (
            f"up to {stats.peak_waiting} requests waited with the KV cache at most "
            f"{usage:.0%} full: that is --max-num-seqs or compute, not memory"
        )


def _end_of_log(case: Case) -> Iterator[str]:
    """A process that is killed from outside has no time to say so."""
    verdict, life = case.verdict, case.verdict.life
    if verdict.phase is not Phase.NOT_OOM or verdict.sign or not life or not life.facts.ready:
        return
    if not any(sign.rule == "farewell" for sign in life.signs):
        yield (
            "the log ends while the engine served, without a shutdown: it still runs, or something "
            "outside killed it, which its own log cannot tell: `dmesg -T | grep -i oom`, the pod's "
            "last state"
        )


def _files(case: Case) -> Iterator[str]:
    yield from case.findings.remarks


def _curve(case: Case) -> Iterator[str]:
    curve = case.findings.curve
    if curve is None:
        return
    yield from curve.notes
    if case.verdict.phase not in _RUN_TIME:
        return
    if curve.pattern is Pattern.TRANSIENT:
        yield "the curve shows a short spike: limit what arrives at once, upstream of the engine"
    if curve.pattern is Pattern.STEADY:
        yield "the curve shows a steady climb or level: lower the engine's share of the card"


_NOTES = (_classic_advice, _numbers, _cards, _lives, _waiting, _curve, _end_of_log, _files)
