"""Tools that measure an engine, pointed at the gateway instead: `vllm bench serve` and AIPerf.

They are heavy, so CI leaves them out. What they would count as the engine's failures are the
gateway's refusals; with the queue as deep as the load is wide there are none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import installed
from tests.interop.stage import STARTING_TIMEOUT_S, LoopThread
from tests.support.gateway_process import gateway
from tests.support.real_vllm import installed_vllm
from tests.support.vllm_launch import vllm_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.engine_process import EngineProcess
    from tests.support.gateway_process import GatewayProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.heavy,
    pytest.mark.vllm,
    pytest.mark.timeout(3 * STARTING_TIMEOUT_S),
]

REQUESTS = 32
CONCURRENCY = 16
TOKENS_OUT = 16


@pytest.fixture(scope="module")
def sluice(real_vllm: EngineProcess, loop_thread: LoopThread) -> Iterator[GatewayProcess]:
    """With half as many seats as the tools keep requests running, and room for the rest to wait."""
    starting = gateway(
        real_vllm.url,
        max_num_seqs=real_vllm.max_num_seqs,
        max_queue_depth=CONCURRENCY,
        queue_timeout=60,
        start_within_s=STARTING_TIMEOUT_S,
    )
    found = loop_thread.run(starting.__aenter__())
    yield found
    loop_thread.run(starting.__aexit__(None, None, None))


def served(loop_thread: LoopThread, sluice: GatewayProcess) -> tuple[float, float]:
    """Requests that went well, and refusals, so far."""
    ok = loop_thread.run(sluice.metric("sluice_requests_total", outcome="ok"))
    return ok, loop_thread.run(sluice.metric("sluice_shed_total"))


def test_vllm_bench_serve(sluice: GatewayProcess, loop_thread: LoopThread, tmp_path: Path) -> None:
    home = installed_vllm()
    before = served(loop_thread, sluice)
    run(
        [
            *(str(home / "venv/bin/python"), "-c", _BENCH, "--backend", "openai-chat"),
            *("--base-url", sluice.url, "--endpoint", "/v1/chat/completions"),
            *("--model", str(home / "model"), "--served-model-name", "tiny"),
            *("--dataset-name", "random", "--random-input-len", "32"),
            *("--random-output-len", str(TOKENS_OUT), "--num-prompts", str(REQUESTS)),
            *("--max-concurrency", str(CONCURRENCY), "--ignore-eos"),
            *("--save-result", "--result-dir", str(tmp_path), "--result-filename", "bench.json"),
        ],
        vllm_environment(home, min(os.sched_getaffinity(0))),
    )
    found = json.loads((tmp_path / "bench.json").read_text())
    assert (found["completed"], found.get("failed", 0)) == (REQUESTS, 0)
    assert found["total_output_tokens"] == REQUESTS * TOKENS_OUT
    after = served(loop_thread, sluice)
    # One more than it counts: it asks once to see whether the server is there.
    assert after[0] - before[0] in (REQUESTS, REQUESTS + 1)
    assert after[1] == before[1]


def test_aiperf(sluice: GatewayProcess, loop_thread: LoopThread, tmp_path: Path) -> None:
    home = installed("all")
    before = served(loop_thread, sluice)
    run(
        [
            *(str(home / "aiperf/bin/aiperf"), "profile", "--model", "tiny", "--url", sluice.url),
            *("--endpoint-type", "chat", "--streaming", "--ui", "none"),
            *("--tokenizer", cached_tokenizer(tmp_path / "hf")),
            *("--request-count", str(REQUESTS), "--concurrency", str(CONCURRENCY)),
            *("--isl", "32", "--osl", str(TOKENS_OUT), "--extra-inputs", "ignore_eos:true"),
            *("--output-artifact-dir", str(tmp_path)),
        ],
        {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "1",
        },
    )
    (result,) = tmp_path.rglob("profile_export_aiperf.json")
    found = json.loads(result.read_text())
    assert found["request_count"]["avg"] == REQUESTS
    assert not found.get("error_summary")
    after = served(loop_thread, sluice)
    assert after[0] - before[0] == REQUESTS
    assert after[1] == before[1]


def cached_tokenizer(hf_home: Path) -> str:
    """The tiny model's, as if it had been fetched: AIPerf 0.13 says that it takes a folder, and
    takes none."""
    revision = "0" * 40
    repository = hf_home / "hub" / "models--sluice--tiny"
    shutil.copytree(installed_vllm() / "model", repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    return "sluice/tiny"


# The command `vllm` asks for the metadata of a distribution of that name, and this one has another.
_BENCH = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


def run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - a test's own command
        command, env=environment, capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout[-8000:])
    assert done.returncode == 0, done.stderr[-4000:]
