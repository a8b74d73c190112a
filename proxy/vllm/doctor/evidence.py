"""What the doctor's readers find, and what it concludes: frozen records, all sizes in bytes.

Every reader (log, memory curve, metrics page, kernel log) fills its own record; `Findings` holds
those there are. `None` means that nobody said, which is never the same as 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.vllm.doctor.step_dump import StepDump


class Phase(StrEnum):
    """Where memory ran out: a closed set, part of the public contract."""

    STARTUP_WEIGHTS = "startup_weights"
    STARTUP_MEMORY_TAKEN = "startup_memory_taken"
    STARTUP_NO_KV_CACHE = "startup_no_kv_cache"
    STARTUP_KV_BELOW_ONE_REQUEST = "startup_kv_below_one_request"
    STARTUP_WARMUP = "startup_warmup"
    STARTUP_GRAPH_CAPTURE = "startup_graph_capture"
    STARTUP_PROFILING = "startup_profiling"
    PREFILL = "prefill"
    MULTIMODAL_ENCODER = "multimodal_encoder"
    LOGITS = "logits"
    LORA = "lora"
    KV_EXHAUSTION = "kv_exhaustion"
    DECODE = "decode"
    FRAGMENTATION = "fragmentation"
    HOST_MEMORY = "host_memory"
    SHARED_MEMORY = "shared_memory"
    NOT_OOM = "not_oom"
    UNKNOWN = "unknown"


class Pattern(StrEnum):
    """What the memory curve says: a short spike, or a level or climb that stays."""

    TRANSIENT = "transient"
    STEADY = "steady"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line that supports the answer; `line` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback, the caller before the called."""

    path: str
    function: str


@dataclass(frozen=True, slots=True)
class OomEvent:
    """An allocation that failed on an accelerator, with the sizes its message gave.

    `in_use` is this process's, as the driver sees it; `allocated` and `reserved_unallocated` are
    the caching allocator's. `sized` is false for the driver's bare "out of memory".
    """

    evidence: EvidenceLine
    spelling: str
    gpu: int | None = None
    rank: str | None = None
    requested: int | None = None
    total: int | None = None
    free: int | None = None
    in_use: int | None = None
    allocated: int | None = None
    reserved_unallocated: int | None = None
    private_pools: int | None = None
    other_processes: tuple[int, ...] = ()
    frames: tuple[Frame, ...] = ()
    after_ready: bool = False  # the engine served already

    @property
    def sized(self) -> bool:
        return self.requested is not None


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that one rule of the table recognises, with the numbers the line named."""

    rule: str
    evidence: EvidenceLine
    rank: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    step: StepDump | None = None


@dataclass(frozen=True, slots=True)
class StartUpFacts:
    """What the engine said of itself when it started; `flags` as in its `non-default args`."""

    engine: str | None = None  # "V0" or "V1"
    version: str | None = None
    model: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    model_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    host_kv_bytes: int | None = None  # of the host's RAM, as a CPU engine was told
    max_concurrency: float | None = None
    max_concurrency_tokens: int | None = None
    graph_pool_bytes: int | None = None
    free_at_start: int | None = None
    total_memory: int | None = None
    ready: bool = False  # it served, or said that it was about to


@dataclass(frozen=True, slots=True)
class StatsSummary:
    """The engine's periodic lines in one life; usage from 0 to 1."""

    lines: int = 0
    peak_running: int | None = None
    peak_waiting: int | None = None
    last_running: int | None = None
    last_waiting: int | None = None
    peak_kv_usage: float | None = None
    last_kv_usage: float | None = None
    preemptions: int | None = None
    peak_line: EvidenceLine | None = None


@dataclass(frozen=True, slots=True)
class EngineLife:
    """From one start of the engine to the next, in one file."""

    file: str
    first_line: int
    facts: StartUpFacts
    stats: StatsSummary
    events: tuple[OomEvent, ...] = ()
    events_seen: int = 0
    signs: tuple[Sign, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFindings:
    """Everything that the logs said, engine life after engine life."""

    lives: tuple[EngineLife, ...] = ()
    lines: int = 0
    bytes: int = 0
    recognised: int = 0  # lines that say that this is a vLLM log at all


@dataclass(frozen=True, slots=True)
class GpuCurve:
    """One card in the memory curve."""

    index: int
    name: str | None = None
    peak: int | None = None
    total: int | None = None
    pattern: Pattern = Pattern.UNKNOWN
    # In lower case, the shape that memory_curve/shape.py gives the life that tells most.
    shape: str | None = None


@dataclass(frozen=True, slots=True)
class CurveFindings:
    """What an nvidia-smi CSV or a file of `sluice record` showed."""

    pattern: Pattern = Pattern.UNKNOWN
    gpus: tuple[GpuCurve, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    notes: tuple[str, ...] = ()
    peak_kv_usage: float | None = None
    preemptions: float | None = None  # how many were added while it was recorded
    peak_running: float | None = None
    peak_waiting: float | None = None


@dataclass(frozen=True, slots=True)
class MetricsFindings:
    """What the engine's metrics page said at one moment."""

    kv_usage: float | None = None
    preemptions: float | None = None  # since the engine started
    running: float | None = None
    waiting: float | None = None
    cache_config: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[EvidenceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class HostKill:
    """The kernel killed a process because the host, or its cgroup, had no memory left."""

    evidence: EvidenceLine
    process: str | None = None
    pid: int | None = None
    resident: int | None = None
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the NVIDIA driver reported to the kernel log."""

    evidence: EvidenceLine
    code: int
    meaning: str | None = None


@dataclass(frozen=True, slots=True)
class KernelFindings:
    """What `dmesg` said."""

    host_kills: tuple[HostKill, ...] = ()
    xids: tuple[Xid, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """All evidence that was given; a part is None when nobody gave its kind of file."""

    log: LogFindings | None = None
    curve: CurveFindings | None = None
    metrics: MetricsFindings | None = None
    kernel: KernelFindings | None = None
    # Files that were read and told less than they could, each in a sentence.
    remarks: tuple[str, ...] = ()
    cut: bool = False  # the end of one of them is lost


@dataclass(frozen=True, slots=True)
class RankMemory:
    """One card at the moment of the OOM."""

    index: int | None
    rank: str | None = None
    requested: int | None = None
    free: int | None = None
    in_use: int | None = None
    total: int | None = None
    others: int | None = None  # other processes on the card
    non_torch: int | None = None  # of this process, outside of torch's allocator
    reserved_unallocated: int | None = None
    peak: int | None = None  # from the memory curve


@dataclass(frozen=True, slots=True)
class Advice:
    """One change, in the order to try. `value` is None where the evidence does not give it."""

    set: str
    value: str | None
    why: str
    costs: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. `oom` is None when the evidence does not decide it."""

    oom: bool | None
    phase: Phase
    cause: str
    confidence: Confidence
    pattern: Pattern = Pattern.UNKNOWN
    ranks: tuple[RankMemory, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    advice: tuple[Advice, ...] = ()
    confirm: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
