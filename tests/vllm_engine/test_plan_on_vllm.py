"""`sluice plan` against what a real engine said of itself when it started."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from proxy.cli.main import sluice
from tests.support.real_vllm import STARTING_TIMEOUT_S

if TYPE_CHECKING:
    from tests.support.engine_process import EngineProcess

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(STARTING_TIMEOUT_S)]

SETUP = Path(__file__).parents[2] / "scripts" / "setup_vllm.sh"
# The CPU's blocks have 128 tokens, and the tests give its cache one GiB.
AS_ON_THE_CPU = ("--dtype", "float32", "--kv-cache-memory", "1GiB", "--block-size", "128")
AS_IN_THE_TESTS = ("--max-model-len", "2048", "--max-num-seqs", "8", "--gpu-memory", "80GiB")
LINE = re.compile(
    r"KV cache size: ([\d,]+) tokens, Maximum concurrency for 2,048 tokens per request: ([\d.]+)x"
)


def plan(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(sluice, ["plan", *arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def model_folder() -> str:
    return subprocess.run(  # noqa: S603 - our own script
        [SETUP, "--check"], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_kv_cache_is_the_one_that_the_engine_named_at_its_start(
    real_vllm: EngineProcess,
) -> None:
    told = LINE.search(real_vllm.log.read_text())
    assert told is not None
    code, planned = plan(f"{model_folder()}/model", *AS_ON_THE_CPU, *AS_IN_THE_TESTS)
    assert code == 0
    assert f"{planned['kv_cache']['tokens']:,}" == told[1]
    assert f"{planned['kv_cache']['max_concurrency']:.2f}" == told[2]


def test_its_url_tells_the_same_and_whether_a_limit_fits(real_vllm: EngineProcess) -> None:
    told = LINE.search(real_vllm.log.read_text())
    assert told is not None
    code, found = plan("--from", f"{real_vllm.url}/metrics", "--max-in-flight", "7")
    assert code == 0
    assert f"{found['engine']['kv_cache_tokens']:,}" == told[1]
    assert found["engine"]["max_model_len"] == 2048
    assert found["fits"]


def test_its_log_tells_the_same_and_its_flags(real_vllm: EngineProcess) -> None:
    told = LINE.search(real_vllm.log.read_text())
    assert told is not None
    code, found = plan("--from", str(real_vllm.log), "--max-in-flight", "8")
    assert f"{found['engine']['kv_cache_tokens']:,}" == told[1]
    assert found["engine"]["max_num_seqs"] == 8
    assert (code, found["fits"]) == (3, False)  # 8 is not below 8
