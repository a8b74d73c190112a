"""One example for each thing that the engine says when its memory runs out."""

import pytest

from proxy.vllm.doctor.evidence import EvidenceLine
from proxy.vllm.doctor.log_line import stripped
from proxy.vllm.doctor.memory_rules import MEMORY_RULES
from proxy.vllm.doctor.rule import Rule
from proxy.vllm.doctor.signs import signs_in

EXAMPLES = {
    "memory taken": (
        "Free memory on device cuda:0 (10.5/80.0 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 72.0 GiB)."
    ),
    "weights do not fit": "Failed to load model - not enough GPU memory. Try lowering",
    "no KV cache": "ValueError: No available memory for the cache blocks. Try increasing",
    "KV cache below one request": (
        "ValueError: To serve at least one request with the models's max seq len (32768), (8.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). "
        "Based on the available memory, the estimated maximum model length is 18432. Try"
    ),
    "KV cache below one request (V0)": (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
        "that can be stored in KV cache (18432). Try increasing"
    ),
    "states below max_num_seqs": (
        "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (161). Each decode "
        "sequence requires one Mamba cache block, so CUDA graph capture cannot proceed."
    ),
    "warm-up": (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests"
    ),
    "profiling race": (
        "AssertionError: Error in memory profiling. Initial free memory 20.0 GiB, current free "
        "memory 30.0 GiB. This happens when"
    ),
    "swap space is lacking (V0)": "RuntimeError: Aborted due to the lack of CPU swap space.",
    "preempted (V0)": (
        "Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because there is not "
        "enough KV cache space. total_num_cumulative_preemption=51"
    ),
    "prompt beyond the KV cache (V0)": (
        "Input prompt (9000 tokens) is too long and exceeds the capacity of block_manager"
    ),
    "out of memory in NCCL": "NCCL WARN Cuda failure 2 'out of memory'",
}
NUMBERS = {
    "KV cache below one request": {
        "length": 32768,
        "needed": 8.0,
        "available": 4.5,
        "estimate": 18432,
    },
    "KV cache below one request (V0)": {"length": 32768, "estimate": 18432},
    "states below max_num_seqs": {"requests": 256, "states": 161},
    "warm-up": {"requests": 1024},
    "profiling race": {"before": 20.0, "now": 30.0},
    "preempted (V0)": {"preemptions": 51},
}


@pytest.mark.parametrize("rule", MEMORY_RULES, ids=lambda rule: rule.name)
def test_every_rule_sees_its_example_and_reads_its_numbers(rule: Rule) -> None:
    text = EXAMPLES[rule.name]
    signs = {s.rule: s for s in signs_in(stripped(text), EvidenceLine("a.log", 1, text))}
    assert rule.name in signs
    for name, value in NUMBERS.get(rule.name, {}).items():
        assert signs[rule.name].numbers[name] == value


def test_the_needs_of_one_request_are_read_without_an_estimate_too() -> None:
    text = (
        "To serve at least one request with the model's max seq len (4096), (1.5 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.5 GiB). Try increasing"
    )
    sign = signs_in(stripped(text), EvidenceLine("a.log", 1, text))[0]
    assert sign.numbers == {"length": 4096, "needed": 1.5, "available": 0.5}


@pytest.mark.parametrize(
    "text",
    [
        "[2] [FATAL ERROR]: HIP failure: 'out of memory' (in ncclCommInitRank during start)",
        "gpu1:9:9 [0] NCCL WARN Cuda failure 'out of memory'",
    ],
)
def test_nccl_says_it_on_every_makers_cards(text: str) -> None:
    assert [s.rule for s in signs_in(stripped(text), EvidenceLine("a.log", 1, text))] == [
        "out of memory in NCCL"
    ]
