"""How the real vLLM starts on the CPU, as scripts/setup_vllm.sh installs it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "tiny"


def vllm_command(home: Path, port: int, *arguments: str) -> tuple[str, ...]:
    return (
        *(str(home / "venv/bin/python"), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(home / "model"), "--served-model-name", MODEL),
        *("--load-format", "dummy", "--dtype", "float32", "--enforce-eager"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *arguments,
    )


def vllm_environment(home: Path, core: int) -> dict[str, str]:
    """Of this process only what says where things are: none of our settings reaches the server.

    The threads that compute stay on that core, and its others may too.
    """
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **inherited,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home / "cache"),
        "VLLM_CACHE_ROOT": str(home / "cache"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core),
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "LD_PRELOAD": str(home / "venv/lib/libiomp5.so"),
    }
