"""The rules for what looks like an OOM of the card, and for what only follows from one."""

from proxy.vllm.doctor.evidence import Phase
from proxy.vllm.doctor.rule import DECIDES, HINT, REAL, STRONG, SYMPTOM, TALK, WHOLE, Rule, rule

LOOKALIKE_RULES: tuple[Rule, ...] = (
    rule(
        "host memory (Ray)",
        Phase.HOST_MEMORY,
        DECIDES,
        "the host's RAM ran out and Ray killed a worker; the card is not the matter",
        r"ray\.exceptions\.OutOfMemoryError|killed due to (?:the node running low|memory pressure)"
        r"|Task was killed due to the node running low on memory|Memory on the node .* was .*"
        r" which exceeds",
        "ray.exceptions",
        "killed due to",
        "exceeds",
        unless=r"potential root causes|" + TALK,
    ),
    rule(
        "host memory (kernel)",
        Phase.HOST_MEMORY,
        DECIDES,
        "the kernel or the container runtime killed a process because the host's RAM ran out",
        r"OOMKilled|Out of memory: Killed process|oom-kill|oom_reaper|Memory cgroup out of memory",
        "OOMKilled",
        "Out of memory: ",
        "oom",
        "cgroup out of memory",
        unless=TALK + r"|potential root causes|\"?OOMKilled\"?: ?false",
    ),
    rule(
        "host memory (allocation)",
        Phase.HOST_MEMORY,
        DECIDES,
        "an allocation in the host's RAM failed; the card is not the matter",
        r"DefaultCPUAllocator: (?:can't|not enough memory)|\[Errno 12\] Cannot allocate memory"
        r"|unable to mmap \d+ bytes .*: Cannot allocate memory"
        r"|std::bad_alloc|^MemoryError\b|\bMemoryError: |Failed to allocate \d+"
        r" bytes.*(?:pinned|host)|paging file is too small|\[WinError 1455\]|os error 1455"
        r"|Too large swap space|out of host memory|memory allocation of \d+ bytes failed",
        "DefaultCPUAllocator",
        "Cannot allocate memory",
        "bad_alloc",
        "MemoryError",
        "Failed to allocate",
        "paging file",
        "1455",
        "Too large swap",
        "host memory",
        "memory allocation of",
        unless=TALK + r"|OutOfMemoryError|/dev/shm|/torch_",
    ),
    rule(
        "host memory (CPU engine)",
        Phase.HOST_MEMORY,
        DECIDES,
        "the host has less free RAM than the CPU engine's share of it",
        rf"Available memory on node \S+ (?:\((?P<node_free>{REAL})/)?.*? is less than (?:desired"
        r" CPU memory utilization|requested memory for kv)",
        "Available memory on node",
    ),
    rule(
        "killed",
        Phase.HOST_MEMORY,
        HINT,
        "a process was killed with SIGKILL: mostly the host's RAM, but a person or an"
        " orchestrator can do it too",
        r"(?:exit(?:ed with)?[ _]?code:?=? ?(?:137|-9)\b|\bsignal 9\b|SIGKILL|^Killed$|\bKilled"
        r" +(?:vllm|python)"
        r"|Exit Code: +137|exitcode=-9)",
        "137",
        "-9",
        "signal 9",
        "SIGKILL",
        "Killed",
        unless=TALK + r"|potential root causes|There are some",
    ),
    rule(
        "crash",
        Phase.NOT_OOM,
        HINT,
        "a process touched an address that is not its own (SIGSEGV): a fault in code, no lack",
        r"exit(?:ed with)?[ _]?code:?=? ?(?:139|-11)\b|SIGSEGV|Segmentation fault"
        r"|\b[Ss]ignal \(?11\b",
        "139",
        "-11",
        "SIGSEGV",
        "Segmentation",
        "ignal ",
        unless=TALK + r"|potential root causes|common causes|There are some",
    ),
    rule(
        "shared memory",
        Phase.SHARED_MEMORY,
        DECIDES,
        "the shared memory (/dev/shm) is full or too small; the card is not the matter",
        r"No space left on device.*(?:shm|shared memory)|(?:/dev/shm|shared memory|shm_).*No"
        r" space left on device"
        r"|(?:NCCL WARN|posix_fallocate).*No space left"
        r"|insufficient shared memory|creating shared memory segment|NCCL WARN .*/dev/shm/"
        r"|bus error|Bus error|SIGBUS"
        r"|unable to (?:mmap|open shared memory|write to file) .*(?:shm|torch_)|Bad file"
        r" descriptor.*shm",
        "No space left",
        "shared memory",
        "us error",
        "SIGBUS",
        "unable to",
        "shm",
        unless=TALK + r"|OutOfResources|out of resource|Hardware limit",
    ),
    rule(
        "disk",
        Phase.NOT_OOM,
        STRONG,
        "the disk is full",
        r"No space left on device|Disk quota exceeded|Not enough free disk space",
        "No space left",
        "Disk quota",
        "free disk space",
        unless=r"shm|shared memory|NCCL|posix_fallocate|" + TALK,
    ),
    rule(
        "address taken",
        Phase.NOT_OOM,
        STRONG,
        "the address is taken: another process, or an older engine, listens there",
        r"error while attempting to bind on address|OSError: \[Errno 98\]",
        "attempting to bind",
        "[Errno 98]",
        unless=TALK,
    ),
    rule(
        "arguments",
        Phase.NOT_OOM,
        STRONG,
        "the command line is not one that this vLLM knows, so nothing was started",
        r"^\S+(?: serve)?: error: (?:unrecognized arguments?|ambiguous option|argument \S"
        r"|the following arguments are required)",
        ": error: ",
        unless=TALK,
    ),
    rule(
        "illegal access",
        Phase.NOT_OOM,
        STRONG,
        "a kernel touched memory that is not its own, or stopped at an assertion: a fault in"
        " code or card, no lack",
        r"illegal memory access|device-side assert triggered|misaligned address|unspecified"
        r" launch failure"
        r"|Memory access fault by GPU|HSA_STATUS_ERROR_(?:MEMORY_APERTURE|EXCEPTION)|illegal"
        r" instruction"
        r"|uncorrectable ECC error|unknown error.*CUDA|CUDA error: unknown error|an illegal",
        "illegal",
        "assert triggered",
        "misaligned",
        "launch failure",
        "access fault",
        "HSA_STATUS",
        "ECC error",
        "unknown error",
        unless=TALK,
    ),
    rule(
        "kernel resources",
        Phase.NOT_OOM,
        STRONG,
        "a kernel needs more of the chip's own small memory or registers than there is",
        r"OutOfResources|out of resource: |too many resources requested for launch"
        r"|memory space (?:smem|vmem|sflag|cmem)\b",
        "OutOfResources",
        "memory space",
        "out of resource",
        "too many resources",
        unless=r"potential root causes|" + TALK,
    ),
    rule(
        "workspace of a kernel",
        Phase.NOT_OOM,
        STRONG,
        "an attention kernel's workspace, whose size is fixed, is too small for the batch; the card"
        " need not be full",
        rf"(?:Buffer overflow when allocating|Failed to allocate) memory for \w+ with size"
        rf" (?P<wanted>{WHOLE}).*?only (?P<bytes>{WHOLE}) bytes available"
        r"|Increase the workspace buffer size|AlignedAllo[ca]",
        "memory for ",
        "workspace buffer",
        "AlignedAllo",
        unless=TALK,
    ),
    rule(
        "no kernel",
        Phase.NOT_OOM,
        STRONG,
        "the build has no code for this card or driver",
        r"no kernel image is available|kernel image is invalid|CUDA driver version is insufficient"
        r"|forward compatibility was attempted"
        r"|Found no NVIDIA driver|Failed to infer device type|CUDA_ERROR_NO_DEVICE|no"
        r" CUDA-capable device"
        r"|CUDA unknown error",
        "kernel image",
        "driver version",
        "forward compat",
        "no NVIDIA driver",
        "infer device type",
        "NO_DEVICE",
        "no CUDA-capable",
        "CUDA unknown error",
        unless=TALK,
    ),
    rule(
        "collective",
        Phase.NOT_OOM,
        HINT,
        "the cards lost each other: a collective failed or timed out",
        r"NCCL error|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError"
        r"|ncclInvalidUsage"
        r"|Watchdog caught collective operation timeout|DistBackendError|Connection (?:closed"
        r"|reset) by peer.*(?:gloo|pair)"
        r"|HCCL|TCPStore|Failed: Cuda error \S*custom_all_reduce\S* '(?!out of memory)",
        "NCCL",
        "nccl",
        "collective operation",
        "DistBackendError",
        "by peer",
        "HCCL",
        "TCPStore",
        "custom_all_reduce",
        unless=TALK,
    ),
    rule(
        "cache pool of a connector",
        Phase.NOT_OOM,
        HINT,
        "a KV connector's own pool in the host's RAM is full; requests go on without it",
        r"(?:LMCache|lmcache).*(?:[Ff]ailed to allocate|No available memory|out of memory|no"
        r" memory)"
        r"|[Ff]ailed to allocate memory (?:object|block).*(?:LMCache|lmcache|evict)",
        "LMCache",
        "lmcache",
        "allocate memory ",
    ),
)

SYMPTOM_RULES: tuple[Rule, ...] = (
    rule(
        "what the last step held",
        Phase.UNKNOWN,
        SYMPTOM,
        "the engine wrote down the batch that it died on",
        r"Dumping scheduler output for model execution",
        "Dumping scheduler output",
    ),
    rule(
        "symptom",
        Phase.UNKNOWN,
        SYMPTOM,
        "the engine died; why stands elsewhere",
        r"EngineDeadError|EngineDead\b|MQEngineDeadError|output_handler failed|Engine core"
        r" initialization failed"
        r"|WorkerProc (?:hit an exception|initialization failed)|EngineCore (?:encountered|hit"
        r"|failed to start|died|failed)"
        r""
        r"|A worker died or was killed"
        r"|Engine core proc .*died|Engine loop is dead|already dead|Background loop"
        r" (?:has errored|is"
        r" stopped)|died unexpectedly"
        r"|AsyncEngineDeadError|Engine process failed to start|Worker .*(?:died|terminated)"
        r"|RPC call to \w+ timed out",
        "EngineDead",
        "output_handler",
        "Engine core",
        "WorkerProc",
        "EngineCore ",
        "Engine loop",
        "already dead",
        "Background loop",
        "died",
        "Engine process",
        "terminated",
        "RPC call to ",
        unless=TALK,
    ),
    rule(
        "farewell",
        Phase.UNKNOWN,
        SYMPTOM,
        "the server was told to end, and ended",
        r"^(?:INFO:\s+)?Shutting down\b|Application shutdown complete|\[shutdown\] API server",
        "hutdown",
        "hutting down",
        unless=TALK,
    ),
    rule(
        "another error",
        Phase.NOT_OOM,
        SYMPTOM,
        "the engine stopped for a reason that is not memory",
        r"^(?:Value error, .+|(?:\w+\.)*(?:\w*Error|\w*Exception)(?:: .+)?"
        r"|(?:[a-z_]\w*\.){2,}[A-Z]\w+: .+)$",
        "Error",
        "Exception",
        "Value error",
        ": ",
        unless=r"DeadError|out of memory|OutOfMemory|See root cause above|See stack trace|"
        r"CancelledError|ClientDisconnect|HTTPException|BrokenPipe|Engine core|died|"
        r"no available memory|RPC call to|KeyboardInterrupt|SystemExit|engine process|"
        r"WorkerProc init|"
        r"EngineGenerateError|Worker failed with error|ALLOC_FAILED|" + TALK,
    ),
)
