"""`sluice check` against an engine on a real socket."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.engine_process import MAX_MODEL_LEN, MAX_NUM_SEQS, MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.engine_process import EngineProcess


def test_check_tells_what_the_engine_tells(simulated_vllm: EngineProcess, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proxy", "check", "--json"]
    target = ["--upstream-urls", f"{simulated_vllm.url}/v1", "--max-num-seqs", str(MAX_NUM_SEQS)]
    result = subprocess.run(  # noqa: S603 - our own interpreter and module
        [*command, *target], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    seen = json.loads(result.stdout)
    assert result.returncode == 0
    assert seen["sound"]
    (engine,) = seen["engines"]
    assert (engine["up"], engine["model"], engine["max_model_len"]) == (True, MODEL, MAX_MODEL_LEN)
    assert engine["kv_cache_tokens"] == 1_048_576
    assert seen["binding_limit"]["which"] == "max_in_flight"
