"""What the command does is tested through it: test_plan.py. Here: what it takes to be asked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# An HTTP client, a settings library, a web framework, a terminal library: none of them for a help.
HEAVY = ("httpx", "pydantic", "fastapi", "rich.console", "proxy.vllm.doctor.intake")


def said_by(code: str) -> bytes:
    ran = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], capture_output=True, check=True
    )
    return ran.stdout


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_a_help_waits_for_no_library(command: str) -> None:
    code = (
        "import json, sys; from click.testing import CliRunner; from proxy.cli.main import sluice; "
        f"code = CliRunner().invoke(sluice, ['{command}', '--help']).exit_code; "
        f"print(json.dumps([code, *(name for name in {HEAVY} if name in sys.modules)]))"
    )
    assert json.loads(said_by(code)) == [0]


def test_a_plan_from_a_file_waits_for_no_http_client() -> None:
    code = "import sys, proxy.cli.plan_answer; print('httpx' in sys.modules)"
    assert said_by(code).split() == [b"False"]
