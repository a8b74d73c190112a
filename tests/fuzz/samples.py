"""Lines of the files that the tools read, one of each kind: what fuzzing garbles."""

from __future__ import annotations

from tests.support.doctor_logs import SERVING, oom, stats, traceback

ODD_NUMBERS = [
    "0",
    "-1",
    "1e999",
    "1e300",
    "nan",
    "inf",
    "-inf",
    "9" * 30,
    "9" * 5000,
    "0.0",
    "00",
    "1,2,3",
    "1.2.3",
    "٣",
    "",
    "18446744073709551616",
    "1_0",
    "0x10",
    "-0",
    "1e-9",
]
LOG_LINES = [
    *SERVING,
    oom(),
    stats(3, 1, 99.5, 2),
    *traceback("vllm/a.py:execute_model", error=oom()),
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.5 GiB",
    "RuntimeError: CUDA error: out of memory",
    "(EngineCore_DP0 pid=12) ERROR 05-20 12:00:00 x",
    "[ 12.3] Out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:5kB",
    "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.",
    (
        "ValueError: To serve at least one request with the model's max seq len (8192), (1.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (0.5 GiB)."
    ),
    "ValueError: No available memory for the cache blocks.",
    (
        "ValueError: Free memory on device (10.0/80.0 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 72.0 GiB)."
    ),
    '{"log":"INFO hello\\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}',
    "\x1b[31m red",
    "(" * 300,
]
CURVE_LINES = [
    "timestamp, memory.used [MiB], utilization.gpu [%]",
    "timestamp,index,memory.used,memory.total",
    "2026/05/20 12:00:00.123, 71234 MiB, 98 %",
    "2026/05/20 12:00:01.123, 0, 71234 MiB, 81559 MiB",
    "1779278400.5,0,75161927680,85899345920",
    "| 30%   40C    P0   60W / 300W |  1MiB / 2MiB | 0% |",
    "unix_s,gpu,memory_used_bytes,memory_total_bytes",
    "[N/A], [Not Supported], [Unknown Error]",
]
PAGE_LINES = [
    "# HELP vllm:num_requests_running x",
    "# TYPE vllm:num_requests_running gauge",
    'vllm:num_requests_running{engine="0",model_name="a"} 3.0',
    "vllm:kv_cache_usage_perc 0.5",
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000",engine="0"} 1.0',
    'vllm:num_preemptions_total{engine="0"} 4.0 1779278400000',
    "sluice_in_flight 3",
    'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 5',
    'x{a="\\"b\\\\"} 1',
    "x{",
]
TRACE_LINES = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:15:46.6805900,374,44",
    "2024-05-10 00:00:00.009930+00:00,2162,5",
    "0001-01-01 00:00:00.0+14:00,1,1",
    "9999-12-31 23:59:59.9-14:00,1,1",
    "Timestamp,Model,Request tokens,Response tokens,Total tokens",
    "5,ChatGPT,472,18,490",
    '"5",a,"47""2",18',
    '{"timestamp": 0, "input_length": 10, "output_length": 5}',
    '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [1, 2, 3]}',
    (
        '{"v": 2, "arrived_wall_s": 1.0, "offset_s": 0.0, "route": "completions", "outcome": "ok", '
        '"seats": 1, "body_bytes": 100, "response_bytes": 300, "output_tokens": 3, "stream": true, '
        '"attempt": 0, "prompt_bytes": 40, "prompt_tokens": 9, "max_tokens": 5}'
    ),
    '{"v": 1, "arrived_wall_s": 2.5, "offset_s": 1.0, "route": "chat_completions", "outcome": "x"}',
]
