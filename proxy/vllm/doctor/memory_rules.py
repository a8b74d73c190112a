"""The rules for what the engine itself says when its memory runs out."""

from proxy.vllm.doctor.evidence import Phase
from proxy.vllm.doctor.rule import DECIDES, HINT, REAL, STRONG, WHOLE, Rule, rule

MEMORY_RULES: tuple[Rule, ...] = (
    rule(
        "memory taken",
        Phase.STARTUP_MEMORY_TAKEN,
        DECIDES,
        "other processes held the card's memory before the engine took any",
        rf"Free memory on device[^(]{{0,40}}\((?P<free>{REAL})/(?P<total>{REAL}) GiB\) on startup"
        rf" is less than (?:desired GPU memory utilization|the engine's budget)[^(]{{0,80}}"
        rf"\((?P<utilization>{REAL}), (?P<wanted>{REAL}) GiB\)",
        "Free memory on device",
        oom=True,
    ),
    rule(
        "weights do not fit",
        Phase.STARTUP_WEIGHTS,
        DECIDES,
        "the weights do not fit beside what is on the card already",
        r"Failed to load model - not enough GPU memory",
        "Failed to load model",
        oom=True,
    ),
    rule(
        "no KV cache",
        Phase.STARTUP_NO_KV_CACHE,
        DECIDES,
        "weights and activations leave nothing of the engine's share for the KV cache",
        r"No available memory for the cache blocks|Cannot auto-fit max_model_len: not enough",
        "No available memory",
        "Cannot auto-fit",
        oom=True,
    ),
    rule(
        "KV cache below one request",
        Phase.STARTUP_KV_BELOW_ONE_REQUEST,
        DECIDES,
        "the KV cache holds less than one request of the full length",
        rf"To serve at least one request with the model'?s'?s? max seq len"
        rf" \((?P<length>{WHOLE})\)"
        rf"(?:, \(?(?P<needed>{REAL}) Gi?B KV cache is needed.*?available KV cache memory"
        rf" \((?P<available>{REAL}) Gi?B)?"
        rf"(?:.*?estimated maximum model length is (?P<estimate>{WHOLE}))?",
        "To serve at least one request",
        oom=True,
    ),
    rule(
        "KV cache below one request (V0)",
        Phase.STARTUP_KV_BELOW_ONE_REQUEST,
        DECIDES,
        "the KV cache holds less than one request of the full length",
        rf"max seq len \((?P<length>{WHOLE})\) is larger than the maximum number of tokens that"
        rf" can be"
        rf" stored in (?:the )?KV cache \((?P<estimate>{WHOLE})\)",
        "is larger than the maximum number of tokens",
        oom=True,
    ),
    rule(
        "states below max_num_seqs",
        Phase.STARTUP_NO_KV_CACHE,
        DECIDES,
        "this model keeps a state for each sequence, and the cache holds fewer states than"
        " max_num_seqs",
        rf"max_num_seqs \((?P<requests>{WHOLE})\) exceeds available Mamba cache blocks"
        rf" \((?P<states>{WHOLE})\)",
        "Mamba cache blocks",
        oom=True,
    ),
    rule(
        "warm-up",
        Phase.STARTUP_WARMUP,
        DECIDES,
        "warming up the sampler or pooler for max_num_seqs requests did not fit",
        rf"out of memory occurred when warming up (?:sampler|pooler).*?with (?P<requests>{WHOLE})"
        r" dummy requests",
        "when warming up",
        oom=True,
    ),
    rule(
        "profiling race",
        Phase.STARTUP_PROFILING,
        DECIDES,
        "another process gave memory back while the engine measured its own need",
        rf"Error in memory profiling\.(?: Initial free memory (?P<before>{REAL})(?: GiB)?,"
        rf" current free memory"
        rf" (?P<now>{REAL}))?",
        "Error in memory profiling",
        oom=False,
    ),
    rule(
        "swap space is lacking (V0)",
        Phase.KV_EXHAUSTION,
        DECIDES,
        "the KV cache was full and so was the swap space for preempted sequences",
        r"Aborted due to the lack of CPU swap space",
        "lack of CPU swap space",
    ),
    rule(
        "preempted (V0)",
        Phase.KV_EXHAUSTION,
        STRONG,
        "running sequences were thrown out because the KV cache was full",
        r"is preempted (?:by|in) PreemptionMode\.\w+ mode because there is not enough"
        r" KV cache space"
        rf"(?:.*total_(?:num_)?cumulative_preemption(?:_cnt)?=(?P<preemptions>{WHOLE}))?",
        "is preempted",
    ),
    rule(
        "prompt beyond the KV cache (V0)",
        Phase.STARTUP_KV_BELOW_ONE_REQUEST,
        HINT,
        "a prompt is longer than the whole KV cache",
        rf"Input prompt \((?P<tokens>{WHOLE}) tokens\) is too long and exceeds the capacity of"
        r" block_manager",
        "exceeds the capacity of block_manager",
    ),
    rule(
        "out of memory in NCCL",
        Phase.UNKNOWN,
        HINT,
        "NCCL found no memory on the card: mostly because the engine had taken all of it",
        r"(?:Cuda|CUDA|HIP) failure:? (?:\d+ )?'out of memory'",
        " failure",
        oom=True,
    ),
)
