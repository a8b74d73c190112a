"""scripts/print_try_it.sh: the hint of `make run` has the port on which the gateway will listen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from proxy.config import load_settings

SCRIPT = Path(__file__).parents[2] / "scripts" / "print_try_it.sh"
PLACES = {
    "nowhere": ("", None, 8080),
    "in the environment": ("9001", None, 9001),
    "in .env": ("", "SLUICE_UPSTREAM_URLS=http://gpu:8000\nSLUICE_PORT=9002\n", 9002),
    "in both": ("9001", "SLUICE_PORT=9002\n", 9001),
    "in .env twice": ("", "SLUICE_PORT=9002\nSLUICE_PORT=9003\n", 9003),
    "in .env, without a value": ("", "SLUICE_PORT=\n", 8080),
    "in .env, as in a shell": ("", "export SLUICE_PORT='9004'  # ours\n", 9004),
    "in a comment": ("", "# SLUICE_PORT=9002\nSLUICE_ADMIN_PORT=9005\n", 8080),
}


@pytest.mark.parametrize(("environment", "file", "port"), PLACES.values(), ids=PLACES.keys())
def test_the_hint_has_the_port_that_the_gateway_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str, file: str | None, port: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("SLUICE_PORT", environment)
    if file is not None:
        Path(".env").write_text(file)
    said = subprocess.run(  # noqa: S603 - our own script
        [SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    assert f"curl -s http://127.0.0.1:{port}/v1/models" in said
    assert load_settings({"max_num_seqs": 8}).port == port
