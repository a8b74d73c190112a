"""The spellings of an accelerator's OOM."""

import pytest

from proxy.vllm.doctor.evidence import EvidenceLine, OomEvent
from proxy.vllm.doctor.log_line import stripped
from proxy.vllm.doctor.oom_message import oom_event

GIB = 1 << 30
MIB = 1 << 20


def read(text: str) -> OomEvent | None:
    return oom_event(stripped(text), EvidenceLine("a.log", 1, text))


def event(text: str) -> OomEvent:
    found = read(text)
    assert found is not None
    return found


def test_the_new_message_gives_all_its_sizes() -> None:
    found = event(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total "
        "capacity of 80.00 GiB of which 512.00 MiB is free. Process 12 has 4.00 GiB memory in use. "
        "Including non-PyTorch memory, this process has 75.50 GiB memory in use. Of the allocated "
        "memory 70.00 GiB is allocated by PyTorch, with 64.00 MiB allocated in private pools"
        " (e.g., "
        "CUDA Graphs), and 2.00 GiB is reserved by PyTorch but unallocated. If reserved but ..."
    )
    assert (found.gpu, found.requested, found.total) == (2, int(1.5 * GIB), 80 * GIB)
    assert (found.free, found.in_use, found.allocated) == (512 * MIB, int(75.5 * GIB), 70 * GIB)
    assert (found.reserved_unallocated, found.private_pools) == (2 * GIB, 64 * MIB)
    assert found.other_processes == (4 * GIB,)


def test_the_old_message_gives_what_it_reserved_beyond_its_use() -> None:
    found = event(
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB (GPU 0;"
        " 44.50 "
        "GiB total capacity; 40.00 GiB already allocated; 12.00 MiB free; 43.00 GiB reserved in "
        "total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb"
    )
    assert (found.gpu, found.requested, found.total) == (0, 224 * MIB, int(44.5 * GIB))
    assert (found.free, found.reserved_unallocated) == (12 * MIB, 3 * GIB)


def test_the_misspelt_capacity_of_torch_2_1_is_read() -> None:
    found = event(
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacty of 23.65 GiB"
        " of "
        "which 14.50 MiB is free."
    )
    assert (found.gpu, found.total) == (1, int(23.65 * GIB))


@pytest.mark.parametrize(
    "text",
    [
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 96.00 MiB. GPU 0 has",
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 96.00 MiB. GPU 0 has",
        "RuntimeError: NPU out of memory. Tried to allocate 96.00 MiB (NPU 5; 60.97 GiB total",
        (
            "RayTaskError(OutOfMemoryError): OutOfMemoryError('CUDA out of memory. Tried to "
            "allocate "
            "96.00 MiB. GPU 0 has')"
        ),
    ],
)
def test_other_backends_and_reprs_are_read(text: str) -> None:
    assert event(text).requested == 96 * MIB


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: out of memory",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: HIP error: out of memory",
        "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
        "RuntimeError: CUDA driver error: out of memory",
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'out of memory'",
        (
            "RESOURCE_EXHAUSTED: Error loading program 'jit__multi_slice': Attempting to reserve "
            "6.14G at the bottom of memory. That was not possible."
        ),
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        (
            "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of"
            " memory)"
        ),
    ],
)
def test_messages_without_sizes_are_events_too(text: str) -> None:
    assert not event(text).sized


@pytest.mark.parametrize(
    "text",
    [
        (
            "INFO 05-20 12:00:00 [m.py:1] Capturing cudagraphs for decoding. If "
            "out-of-memory error "
            "occurs during cudagraph capture, consider decreasing `gpu_memory_utilization`"
        ),
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 114688",
        "AlignedAlloactor: out of memory",
        "RESOURCE_EXHAUSTED: XLA:TPU compile error. Ran out of memory in memory space vmem.",
        (
            "There are some potential root causes. (1) The process is killed by SIGKILL by "
            "OOM killer "
            "due to high memory usage. (2) ray stop --force is called."
        ),
        (
            "INFO 05-20 12:00:00 [l.py:1] Received request cmpl-1: prompt: 'what is "
            "torch.OutOfMemoryE"
            "rror: CUDA out of memory. Tried to allocate 1 GiB', params: SamplingParams(n=1)"
        ),
        "    except torch.cuda.OutOfMemoryError as e:",
        '        if "CUDA out of memory. Tried to allocate" in str(e):',
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ncclUnhandledCudaError: Call to CUDA function failed. Cuda failure 'out of memory'",
        'INFO: 10.0.0.1:5 - "GET /v1/models?q=out of memory HTTP/1.1" 404 Not Found',
    ],
)
def test_what_only_speaks_of_memory_is_no_event(text: str) -> None:
    assert read(text) is None
