"""What the engine says of its memory when it starts, over the versions of vLLM."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from proxy.vllm.doctor.evidence import StartUpFacts
from proxy.vllm.doctor.log_line import LogLine
from proxy.vllm.doctor.sizes import gib

_N = r"(\d[\d,]{0,18})"
_R = r"(-?\d{1,12}(?:\.\d{1,12})?)"


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _gib(text: str) -> int:
    return gib(float(text))


# Field, the words that carry it, how the number is read, and which of several ranks' counts.
_Reading = tuple[str, re.Pattern[str], Callable[[str], Any], Callable[[Any, Any], Any]]
_NUMBERS: tuple[_Reading, ...] = (
    (
        "model_bytes",
        re.compile(rf"(?:Model loading|Loading model weights) took {_R} ?Gi?B"),
        _gib,
        max,
    ),
    ("model_bytes", re.compile(rf"model weights take {_R} ?GiB"), _gib, max),
    ("kv_cache_bytes", re.compile(rf"Available KV cache memory: {_R} GiB"), _gib, min),
    ("kv_cache_bytes", re.compile(rf"reserved for KV Cache is {_R} ?GiB"), _gib, min),
    ("kv_cache_bytes", re.compile(rf"kv_cache_size={_R} ?GiB"), _gib, min),
    (
        "kv_cache_bytes",
        re.compile(rf"reserved {_R} GiB memory for KV Cache as specified"),
        _gib,
        min,
    ),
    (
        "host_kv_bytes",
        re.compile(rf"Explicitly set \({_R}/[\d.]+\) GiB for KV cache on node"),
        _gib,
        min,
    ),
    ("kv_cache_tokens", re.compile(rf"KV cache size: {_N} tokens"), _whole, min),
    (
        "max_concurrency",
        re.compile(rf"Maximum concurrency for {_N} tokens per request: {_R} ?x"),
        str,
        min,
    ),
    (
        "graph_pool_bytes",
        re.compile(rf"Graph capturing finished in \d+ secs, took {_R} Gi?B"),
        _gib,
        max,
    ),
    ("graph_pool_bytes", re.compile(rf"CUDA graph pool memory: {_R} GiB"), _gib, max),
    ("total_memory", re.compile(rf"total_gpu_memory ?[(=]{_R} ?GiB"), _gib, min),
    (
        "total_memory",
        re.compile(rf"Free memory on device[^(]{{0,40}}\(\d[\d.]*/{_R} GiB\)"),
        _gib,
        min,
    ),
    (
        "free_at_start",
        re.compile(rf"Free memory on device[^(]{{0,40}}\({_R}/"),
        _gib,
        min,
    ),
    ("free_at_start", re.compile(rf"Initial free memory:? {_R} GiB"), _gib, min),
)
_SHARE = re.compile(rf"x gpu_memory_utilization \({_R}\)|Desired GPU memory utilization is \({_R},")
_BLOCKS = re.compile(r"# (?:GPU|[Cc]uda|CUDA|HPU|xpu) blocks: (\d{1,12})")
_DEFAULT_BLOCK = 16
# Arguments and configs are shorter; what is longer is data, and costs time.
_LONGEST = 16_384
_V0 = re.compile(r"Initializing an? (?:V0 )?LLM engine(?: \(v([^)]*)\))?")
_V1 = re.compile(r"Initializing a V1 LLM engine(?: \(v([^)]*)\))?")
_VERSION = re.compile(r"vLLM (?:API )?server version (\S+)")
_READY = re.compile(
    r"Application startup complete|Uvicorn running on|Starting vLLM (?:API )?server"
)
_MODEL = re.compile(r"model='([^']*)'|'model(?:_tag)?': '([^']*)'")

FLAGS = (
    "max_num_seqs",
    "max_model_len",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "kv_cache_memory_bytes",
    "kv_cache_dtype",
    "block_size",
    "enforce_eager",
    "enable_sleep_mode",
    "enable_lora",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "quantization",
    "dtype",
    "swap_space",
    "cpu_offload_gb",
    "max_loras",
    "max_lora_rank",
    "max_logprobs",
    "num_gpu_blocks_override",
    "limit_mm_per_prompt",
    "speculative_config",
)
_VALUE = r"'[^']*'|\"[^\"]*\"|\{[^}]*\}|[\w.+-]+"
_IN_DICT = re.compile(rf"'({'|'.join(FLAGS)})': ?({_VALUE})")
_IN_CALL = re.compile(rf"\b({'|'.join(FLAGS)}|max_seq_len)=({_VALUE})")
_ON_LINE = re.compile(r"--([a-z][a-z-]+)(?:[ =]|', ')(\S+?)(?=[\s',\]]|$)")
_CONFIG_LINES = (
    "non-default args",
    "args: Namespace",
    "LLM engine ",
    "Chunked prefill is enabled",
)

# Which blocks of a log need a look for these: all that `facts_of` reads.
NEEDLES = (
    " took ",
    "CPU blocks",
    "concurrency for",
    "startup complete",
    "KV cache on node",
    "Starting vLLM",
    "vllm serve",
    "max_num_batched_tokens=",
)


def begins_engine(text: str) -> bool:
    """Whether the line is the engine's first word of itself."""
    return "Initializing a" in text and bool(_V1.search(text) or _V0.search(text))


def facts_of(facts: StartUpFacts, line: LogLine) -> StartUpFacts:
    """The facts with what this line adds; the same object when it adds nothing."""
    changes = dict(_changes(facts, line.text[:_LONGEST]))
    return replace(facts, **changes) if changes else facts


def _changes(facts: StartUpFacts, text: str) -> Iterator[tuple[str, Any]]:
    yield from _numbers(facts, text)
    yield from _identity(facts, text)
    flags = _flags(text)
    share = _SHARE.search(text)
    if share:
        flags["gpu_memory_utilization"] = share[1] or share[2]
    if flags:
        yield "flags", {**facts.flags, **flags}
    if not facts.ready and _READY.search(text):
        yield "ready", True


def _numbers(facts: StartUpFacts, text: str) -> Iterator[tuple[str, Any]]:
    for field, pattern, read, choose in _NUMBERS:
        found = pattern.search(text)
        if found is None:
            continue
        if field == "max_concurrency":
            yield field, float(found[2])
            yield "max_concurrency_tokens", _whole(found[1])
            continue
        before, now = getattr(facts, field), read(found[1])
        yield field, now if before is None else choose(before, now)
    blocks = _BLOCKS.search(text)
    if blocks:
        size = facts.flags.get("block_size", "")
        each = int(size) if re.fullmatch("[0-9]{1,6}", size) else _DEFAULT_BLOCK
        yield "kv_cache_tokens", int(blocks[1]) * each


def _identity(facts: StartUpFacts, text: str) -> Iterator[tuple[str, Any]]:
    for engine, pattern in (("V1", _V1), ("V0", _V0)):
        found = pattern.search(text)
        if found:
            yield "engine", engine
            yield "version", found[1] or facts.version
            break
    version = _VERSION.search(text)
    if version:
        yield "version", version[1]
    model = _MODEL.search(text) if any(name in text for name in _CONFIG_LINES) else None
    if model:
        yield "model", model[1] or model[2]


def _flags(text: str) -> dict[str, str]:
    if any(name in text for name in _CONFIG_LINES):
        named = [*_IN_DICT.findall(text), *_IN_CALL.findall(text)]
    elif "vllm serve" in text or "openai.api_server" in text:
        named = [(name.replace("-", "_"), value) for name, value in _ON_LINE.findall(text)]
        named = [(name, value) for name, value in named if name in FLAGS]
    else:
        return {}
    flags = {name: value.strip("'\"") for name, value in named if value != "None"}
    if "max_seq_len" in flags:
        flags.setdefault("max_model_len", flags.pop("max_seq_len"))
    return flags
