"""The log lines of a vLLM server that tools read: launch arguments, sizes, and deaths.

Wording and places are those of vLLM 0.32 on a GPU, since other programs search for them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.simulator.gpu_memory import GIB, MIB

if TYPE_CHECKING:
    from proxy.simulator.options import SimulatorOptions

VLLM_VERSION = "0.32.0"
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."

_API_SERVER = "APIServer"
_ENGINE_CORE = "EngineCore"


@dataclass(frozen=True, slots=True)
class LogLine:
    """`process` is vLLM's name for the process that logs, `place` its source file and line; both
    are empty for what vLLM's web server says of itself."""

    process: str
    level: str
    place: str
    text: str

    def format(self, pid: int, wall_s: float) -> str:
        if not self.place:
            return f"{self.level + ':':<9} {self.text}"
        stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(wall_s))
        return f"({self.process} pid={pid}) {self.level} {stamp} [{self.place}] {self.text}"


def start_up_lines(options: SimulatorOptions, url: str) -> list[LogLine]:
    """What a server says before it serves."""
    engine = options.engine_options()
    memory = options.memory
    concurrency = engine.kv_cache_tokens / engine.max_model_len
    return [
        _info(
            _API_SERVER,
            "api_utils.py:345",
            f"vLLM server version {VLLM_VERSION}, serving model {options.served_model_name}",
        ),
        _info(_API_SERVER, "api_utils.py:286", f"non-default args: {options.non_default()}"),
        _info(_API_SERVER, "model.py:2152", f"Using max model len {engine.max_model_len}"),
        _info(
            _ENGINE_CORE,
            "core.py:133",
            f"Initializing a V1 LLM engine (v{VLLM_VERSION}) with config: "
            f"model='{options.served_model_name}', max_seq_len={engine.max_model_len}",
        ),
        _info(
            _ENGINE_CORE,
            "gpu_model_runner.py:5150",
            f"Model loading took {_gib(memory.weight_bytes)} GiB memory and 0.000000 seconds",
        ),
        _info(
            _ENGINE_CORE,
            "gpu_worker.py:760",
            f"Available KV cache memory: {_gib(engine.kv_cache_bytes)} GiB",
        ),
        _info(
            _ENGINE_CORE,
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {engine.kv_cache_tokens:,} tokens, Maximum concurrency for "
            f"{engine.max_model_len:,} tokens per request: {concurrency:.2f}x",
        ),
        _info(_API_SERVER, "entry.py:140", f"Starting vLLM server on {url}"),
    ]


def serving_lines(pid: int) -> list[LogLine]:
    """Connections are accepted from here on."""
    return [
        _web_server(f"Started server process [{pid}]"),
        _web_server("Waiting for application startup."),
        _web_server("Application startup complete."),
    ]


def farewell_lines() -> list[LogLine]:
    """The server ends because it was told to, or because its engine did."""
    return [
        _web_server("Shutting down"),
        _web_server("Waiting for application shutdown."),
        _web_server("Application shutdown complete."),
    ]


def death_lines() -> list[LogLine]:
    """The engine's process is gone, and nothing says why."""
    return [_error(_API_SERVER, "async_llm.py:906", line) for line in _HANDLER_FAILED]


def out_of_memory_lines(options: SimulatorOptions, prefill_tokens: int) -> list[LogLine]:
    """The engine died of CUDA out of memory in a step with so many prefill tokens."""
    traceback = (
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "vllm/v1/engine/core.py", line 1476, in run_engine_core',
        '  File "vllm/v1/worker/gpu_model_runner.py", line 4012, in execute_model',
        '  File "vllm/model_executor/models/llama.py", line 118, in forward',
        f"torch.OutOfMemoryError: {_cuda_out_of_memory(options, prefill_tokens)}",
    )
    core = [_error(_ENGINE_CORE, "core.py:1512", line) for line in traceback]
    return core + death_lines()


_HANDLER_FAILED = (
    "AsyncLLM output_handler failed.",
    "Traceback (most recent call last):",
    f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}",
)


def _cuda_out_of_memory(options: SimulatorOptions, prefill_tokens: int) -> str:
    """PyTorch's message, with numbers that add up."""
    memory = options.memory
    allocated = memory.weight_bytes + options.engine_options().kv_cache_bytes
    in_use = min(allocated + memory.context_bytes, memory.total_bytes)
    free = memory.total_bytes - in_use
    asked = max(memory.activations(prefill_tokens), free + 2 * MIB)
    return (
        f"CUDA out of memory. Tried to allocate {_size(asked)}. "
        f"GPU 0 has a total capacity of {_gib(memory.total_bytes)} GiB of which {_size(free)} is "
        f"free. Including non-PyTorch memory, this process has {_size(in_use)} memory in use. "
        f"Of the allocated memory {_size(allocated)} is allocated by PyTorch, and 0 bytes is "
        f"reserved by PyTorch but unallocated."
    )


def _info(process: str, place: str, text: str) -> LogLine:
    return LogLine(process, "INFO", place, text)


def _web_server(text: str) -> LogLine:
    return LogLine("", "INFO", "", text)


def _error(process: str, place: str, text: str) -> LogLine:
    return LogLine(process, "ERROR", place, text)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"


def _size(size_bytes: int) -> str:
    if size_bytes >= GIB:
        return f"{_gib(size_bytes)} GiB"
    return f"{size_bytes / MIB:.2f} MiB"
