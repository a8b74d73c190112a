"""The accelerator's out-of-memory messages, in all spellings of torch and its backends."""

import re
from dataclasses import replace

from proxy.vllm.doctor.evidence import EvidenceLine, OomEvent
from proxy.vllm.doctor.log_line import LogLine
from proxy.vllm.doctor.sizes import SIZE, size_in_bytes

_SPELLINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("device", re.compile(r"Out of Memory: Not enough space to allocate")),
    ("driver", re.compile(r"Triton Error \[\w+\]: out of memory")),
    (
        "torch",
        re.compile(
            r"\b(?:CUDA|HIP|XPU|NPU|MUSA|MLU|GCU|HPU|MPS) out of memory\. Tried to allocate"
        ),
    ),
    (
        "torch",
        re.compile(
            r"Allocation on device.*(?:would exceed allowed memory|out of memory)", re.IGNORECASE
        ),
    ),
    ("torch", re.compile(r"\btorch(?:\.cuda|\.xpu|_npu\.npu)?\.OutOfMemoryError(?:: |\()")),
    (
        "driver",
        re.compile(
            r"\b(?:CUDA|HIP|XPU|NPU|cuda runtime|CUDA driver) error(?: \(\d+\) ?)?: out of memory",
            re.IGNORECASE,
        ),
    ),
    (
        "driver",
        re.compile(
            r"CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"
        ),
    ),
    (
        "driver",
        re.compile(r"\b(?:RuntimeError|AcceleratorError): .{0,60}cudaErrorMemoryAllocation"),
    ),
    # vLLM's own kernels: "Failed: Cuda error /csrc/x.cuh:368 'out of memory'".
    ("driver", re.compile(r"Failed: Cuda error \S+ 'out of memory'")),
    ("library", re.compile(r"\b(?:CUBLAS|HIPBLAS|CUDNN|CUSOLVER)_STATUS_ALLOC_FAILED")),
    (
        "xla",
        re.compile(
            r"RESOURCE_EXHAUSTED: .*(?:Ran out of memory|Out of memory|hbm|to reserve \S+ at the)",
            re.IGNORECASE,
        ),
    ),
)
NEEDLES = (
    "ut of memory",
    "OutOfMemory",
    "OUT_OF_",
    "ALLOC_FAILED",
    "MemoryAllocation",
    "EXHAUSTED",
    "exceed allowed",
    "to reserve ",
    "Not enough space",
)

# So much of a line may belong to the message; exports join whole tracebacks into one line.
_BEFORE = 2_048
_BEHIND = 6_144

# Lines that speak of memory and report no failure: hints, a client's words, source code.
_NOT_AN_EVENT = re.compile(
    r"If out-of-memory error occurs|out of memory occurred when warming up"
    r"|ray\.exceptions\.OutOfMemoryError|potential root causes|There are some potential"
    r"|\bReceived request|\bAdded request|EngineCoreRequest\(|SamplingParams\("
    # A TPU's memory beside its HBM belongs to one kernel.
    r"|memory space (?:smem|vmem|sflag|cmem)\b"
    r"|Cuda failure|\bexcept \(?torch|\bin str\(|isinstance\(|pytest|^\s*(?:raise|if|elif|#) "
)

_FIELDS: dict[str, re.Pattern[str]] = {
    "requested": re.compile(
        rf"(?:Tried to allocate|Not enough space to allocate|Requested\s*:) ({SIZE})"
    ),
    "total": re.compile(
        rf"total capaci?ty of ({SIZE})|({SIZE}) total capacity|Device limit\s*: ({SIZE})"
    ),
    "free": re.compile(
        rf"of which ({SIZE}) is free|({SIZE}) free;|Free \(according to CUDA\)\s*: ({SIZE})"
    ),
    "in_use": re.compile(rf"this process has ({SIZE}) memory in use"),
    "allocated": re.compile(
        rf"allocated memory ({SIZE}) is allocated by PyTorch|({SIZE}) already allocated"
        rf"|Currently allocated\s*: ({SIZE})"
    ),
    "reserved_unallocated": re.compile(rf"({SIZE}) is reserved by PyTorch but unallocated"),
    "private_pools": re.compile(rf"with ({SIZE}) allocated in private pools"),
}
_RESERVED = re.compile(rf"({SIZE}) reserved in total by PyTorch")
_GPU = re.compile(
    r"\bGPU (\d{1,4})[ ;]|\((?:GPU|NPU|XPU) (\d{1,4});|\bNPU (\d{1,4}) has|on device (\d{1,4})"
)
_PROCESS = re.compile(rf"Process \d+ has ({SIZE}) memory in use")


def oom_event(line: LogLine, evidence: EvidenceLine) -> OomEvent | None:
    """The failed allocation that the line reports; None when it reports none."""
    at = min((at for needle in NEEDLES if (at := line.text.find(needle)) >= 0), default=-1)
    text = line.text[max(at - _BEFORE, 0) : at + _BEHIND]
    if at < 0 or _NOT_AN_EVENT.search(text):
        return None
    spelling = next((name for name, pattern in _SPELLINGS if pattern.search(text)), None)
    if spelling is None:
        return None
    return _with_sizes(OomEvent(evidence, spelling, rank=line.rank), text)


def _with_sizes(event: OomEvent, text: str) -> OomEvent:
    sizes = {name: _size(pattern, text) for name, pattern in _FIELDS.items()}
    reserved = size_in_bytes(_first(_RESERVED.search(text)))
    if sizes["reserved_unallocated"] is None and None not in (reserved, sizes["allocated"]):
        sizes["reserved_unallocated"] = max((reserved or 0) - (sizes["allocated"] or 0), 0)
    gpu = _first(_GPU.search(text))
    return replace(
        event,
        gpu=int(gpu) if gpu else None,
        other_processes=tuple(size_in_bytes(size) or 0 for size in _PROCESS.findall(text)),
        requested=sizes["requested"],
        total=sizes["total"],
        free=sizes["free"],
        in_use=sizes["in_use"],
        allocated=sizes["allocated"],
        reserved_unallocated=sizes["reserved_unallocated"],
        private_pools=sizes["private_pools"],
    )


def _size(pattern: re.Pattern[str], text: str) -> int | None:
    return size_in_bytes(_first(pattern.search(text)))


def _first(found: re.Match[str] | None) -> str | None:
    return next((group for group in found.groups() if group is not None), None) if found else None
