"""What the command does is tested through it, in test_doctor.py; here are its parts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli.doctor_answer import answer, watch

if TYPE_CHECKING:
    from pathlib import Path


def test_the_exit_code_of_a_file_is_its_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("ValueError: No available memory for the cache blocks.\n")
    assert answer([str(log)], as_json=False) == 3
    assert capsys.readouterr().out.startswith("OUT OF MEMORY")
    assert answer([str(tmp_path / "missing")], as_json=False) == 2


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("kernel: Out of memory: Killed process 9 (python3) total-vm:9kB", "host_memory"),
        ("OSError: [Errno 28] No space left on device: '/psm_7' in /dev/shm", "shared_memory"),
        (
            (
                "WARNING Sequence group 7 is preempted by PreemptionMode.SWAP mode because "
                "there is not enough KV cache space."
            ),
            "kv_exhaustion",
        ),
    ],
)
def test_what_is_no_oom_of_the_card_exits_0_and_has_a_phase_of_its_own(
    text: str, phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(text + "\n")
    assert answer([str(log)], as_json=True) == 0
    assert f'"phase": "{phase}"' in capsys.readouterr().out


def test_a_url_cannot_be_followed() -> None:
    with pytest.raises(click.UsageError, match="not http://gpu"):
        watch(["http://gpu:8000"], as_json=False)
