"""What looks like an OOM of the card and is none, an example or more for each rule."""

import pytest

from proxy.vllm.doctor.evidence import EvidenceLine
from proxy.vllm.doctor.log_line import stripped
from proxy.vllm.doctor.lookalike_rules import LOOKALIKE_RULES, SYMPTOM_RULES
from proxy.vllm.doctor.signs import signs_in

EXAMPLES = {
    "host memory (Ray)": (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        (
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
            "Workers crashed"
        ),
    ),
    "host memory (kernel)": (
        "Last State: Terminated Reason: OOMKilled",
        "kernel: Out of memory: Killed process 4711 (python3) total-vm:9kB",
        "Memory cgroup out of memory: Killed process 4711 (VLLM::EngineCor)",
    ),
    "host memory (allocation)": (
        "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: unable to mmap 4965799096 bytes from file <a>: Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "numpy.core._exceptions._ArrayMemoryError: x; MemoryError: Unable to allocate",
        "OSError: The paging file is too small for this operation to complete. (os error 1455)",
        "ValueError: Too large swap space. 16.00 GiB out of the 15.00 GiB total CPU memory",
    ),
    "host memory (CPU engine)": (
        (
            "ValueError: Available memory on node 0 (3.0/8.0 GiB) on startup is less "
            "than desired CPU "
            "memory utilization (0.9, 7.2 GiB)."
        ),
        (
            "ValueError: Available memory on node 0 (10.21/12.71 GiB) on kv cache allocation is "
            "less than requested memory for kv (400.0 GiB). Decrease --kv-cache-memory-bytes"
        ),
    ),
    "killed": (
        "vllm-1 exited with code 137",
        "RuntimeError: Engine core process died. exit code -9",
        "Killed",
    ),
    "crash": (
        "Worker VllmWorkerProcess pid 214281 died, exit code: -11",
        "*** SIGSEGV received at time=1722289279 on cpu 61 ***",
        "Fatal Python error: Segmentation fault",
        "Signal (11) received.",
    ),
    "shared memory": (
        "OSError: [Errno 28] No space left on device: '/psm_7' in /dev/shm",
        "ncclSystemError: Error while creating shared memory segment /dev/shm/nccl-x (size 9)",
        "RuntimeError: DataLoader worker is killed by signal: Bus error. It is possible that",
        "a1:60:210 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-v to 9",
        "Unexpected bus error. This might be caused by insufficient shared memory (shm).",
    ),
    "disk": ("OSError: [Errno 28] No space left on device: '/cache/model.safetensors'",),
    "address taken": (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address",
        "OSError: [Errno 98] Address already in use",
    ),
    "arguments": (
        "api_server.py: error: unrecognized arguments: --max-seqs",
        "vllm serve: error: argument --max-num-seqs: invalid int value: 'many'",
    ),
    "illegal access": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "Memory access fault by GPU node-1 on address 0x7f",
    ),
    "kernel resources": (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072",
        "RESOURCE_EXHAUSTED: XLA:TPU compile error. Ran out of memory in memory space smem",
    ),
    "workspace of a kernel": (
        (
            "allocator.h:49: Buffer overflow when allocating memory for batch_prefill_tmp_v with "
            "size 536346624 and alignment 16, but only 413138944 bytes available in AlignedAll"
        ),
        "AlignedAlloactor: failed",
    ),
    "no kernel": (
        "RuntimeError: CUDA error: no kernel image is available for execution",
        "torch.AcceleratorError: CUDA error: device kernel image is invalid",
    ),
    "collective": (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)",
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'invalid argument'",
    ),
    "cache pool of a connector": ("LMCache WARNING: Failed to allocate memory object",),
    "what the last step held": ("Dumping scheduler output for model execution: SchedulerOutput(",),
    "symptom": (
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "AsyncLLM output_handler failed.",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "WorkerProc hit an exception.",
        "TimeoutError: RPC call to sample_tokens timed out.",
        "vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running.",
    ),
    "farewell": (
        "INFO:     Shutting down",
        "INFO:     Application shutdown complete.",
        "INFO 12-02 23:11:35 [launcher.py:254] [shutdown] API server: shutdown triggered",
    ),
    "another error": (
        "  Value error, User-specified max_model_len (400000) is greater than the derived",
        "ValueError: User-specified max_model_len (99999) is greater",
        "huggingface_hub.errors.CacheNotFound: Cache directory not found: /data/.cache/huggingface",
    ),
}
PAIRS = [
    (rule.name, text) for rule in (*LOOKALIKE_RULES, *SYMPTOM_RULES) for text in EXAMPLES[rule.name]
]


@pytest.mark.parametrize(("name", "text"), PAIRS)
def test_every_rule_sees_its_examples(name: str, text: str) -> None:
    assert name in {s.rule for s in signs_in(stripped(text), EvidenceLine("a.log", 1, text))}


@pytest.mark.parametrize(
    "text",
    [
        (
            "There are some potential root causes. (1) The process is killed by SIGKILL by OOM "
            "killer due to high memory usage. (2) ray stop --force is called."
        ),
        '"OOMKilled": false,',
        "INFO 05-20 12:00:00 [a.py:139] Signal 110 of 139",
        (
            "Some common causes include: (1) the process was killed by the OOM killer due to high "
            "memory usage, or (3) the worker crashed unexpectedly due to SIGSEGV"
        ),
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'out of memory'",
        "(VllmWorker rank=0 pid=137) INFO 05-20 12:00:00 [a.py:137] ready",
    ],
)
def test_lists_of_possible_causes_and_good_states_are_no_signs(text: str) -> None:
    assert not signs_in(stripped(text), EvidenceLine("a.log", 1, text))
