"""Logs in a few lines, and what the doctor says of them."""

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import Diagnosis, Findings, LogFindings
from proxy.vllm.doctor.log_scanner import LogScanner

SITE = "/opt/venv/lib/python3.12/site-packages"


def findings_of(*lines: str, file: str = "vllm.log") -> LogFindings:
    scanner = LogScanner()
    scanner.feed("".join(f"{line}\n" for line in lines).encode(), file)
    scanner.close(file)
    return scanner.findings()


def diagnosis_of(*lines: str) -> Diagnosis:
    return diagnose(Findings(log=findings_of(*lines)))


def traceback(*calls: str, error: str, prefix: str = "") -> list[str]:
    """`calls` as "vllm/v1/worker/gpu_worker.py:load_model", the caller first."""
    lines = [f"{prefix}Traceback (most recent call last):"]
    for call in calls:
        path, _, function = call.partition(":")
        lines += [f'{prefix}  File "{SITE}/{path}", line 7, in {function}', f"{prefix}    code()"]
    return [*lines, f"{prefix}{error}"]


def oom(
    requested: str = "1.50 GiB",
    free: str = "512.00 MiB",
    *,
    total: str = "80.00 GiB",
    in_use: str = "79.50 GiB",
    allocated: str = "76.00 GiB",
    unallocated: str = "300.00 MiB",
    gpu: int = 0,
) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU {gpu} has "
        f"a total capacity of {total} of which {free} is free. Including non-PyTorch memory, this "
        f"process has {in_use} memory in use. Of the allocated memory {allocated} is allocated by "
        f"PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
    )


STARTED = (
    (
        "INFO 05-20 12:00:00 [utils.py:1] non-default args: {'model': 'a/b', 'max_num_seqs': 256, "
        "'gpu_memory_utilization': 0.9, 'max_num_batched_tokens': 8192}"
    ),
    (
        "INFO 05-20 12:00:01 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: "
        "model='a/b', max_seq_len=32768, tensor_parallel_size=1, enforce_eager=False"
    ),
)
LOADED = (*STARTED, "INFO 05-20 12:00:09 [r.py:1] Model loading took 30.0 GiB and 8.0 seconds")
SIZED = (
    *LOADED,
    "INFO 05-20 12:00:20 [w.py:1] Available KV cache memory: 38.0 GiB",
    "INFO 05-20 12:00:20 [k.py:1] GPU KV cache size: 311,296 tokens",
    "INFO 05-20 12:00:20 [k.py:1] Maximum concurrency for 32,768 tokens per request: 9.50x",
)
SERVING = (
    *SIZED,
    "INFO 05-20 12:00:40 [r.py:1] Graph capturing finished in 15 secs, took 0.60 GiB",
    "INFO:     Application startup complete.",
)


def stats(running: int, waiting: int, usage: float, preemptions: int = 0) -> str:
    preempted = f"Preemptions: {preemptions}, " if preemptions else ""
    return (
        "INFO 05-20 12:01:00 [loggers.py:1] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg "
        f"generation throughput: 20.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"{preempted}GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 0.0%"
    )
