from __future__ import annotations

import shlex

from proxy.vllm.launch_plan.launch_flags import launch_command, launch_flags, launch_words
from proxy.vllm.launch_plan.plan import make_plan
from tests.support.plan_requests import request


def test_the_command_is_one_that_a_shell_reads_as_the_words() -> None:
    plan = make_plan(request(tensor=2))
    assert shlex.split(launch_command(plan).replace("\\\n", "")) == list(launch_words(plan))
    assert launch_words(plan)[:3] == ("vllm", "serve", "models/llama-3-8b")


def test_the_flags_of_the_article_are_there_but_chunked_prefill() -> None:
    """Which is on by default."""
    names = [flag.name for flag in launch_flags(make_plan(request()))]
    assert names == [
        "--max-num-seqs",
        "--max-model-len",
        "--gpu-memory-utilization",
        "--max-num-batched-tokens",
    ]


def test_what_was_asked_for_is_handed_on() -> None:
    made = request(
        tensor=2,
        pipeline=2,
        quantize="fp8",
        kv_dtype="fp8",
        dtype="float16",
        block_tokens=32,
        enforce_eager=True,
        kv_memory=1 << 30,
    )
    command = " ".join(launch_words(make_plan(made)))
    for expected in (
        "--quantization fp8",
        "--kv-cache-dtype fp8",
        "--dtype float16",
        "--block-size 32",
        "--enforce-eager",
        "--tensor-parallel-size 2",
        "--pipeline-parallel-size 2",
        "--kv-cache-memory-bytes 1073741824",
    ):
        assert expected in command
    assert "--gpu-memory-utilization" not in command


def test_every_flag_has_its_reason() -> None:
    assert all(flag.why for flag in launch_flags(make_plan(request())))
