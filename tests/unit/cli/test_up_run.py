"""What is done with a plan, short of serving; the serving is in tests/e2e/test_up.py."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli import up_run as module
from proxy.cli.up_run import UpOptions, answer, as_page, exit_code
from proxy.cli.up_settings import plan_up, read_arguments
from proxy.supervision.restart_policy import Death

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.mark.parametrize(
    ("death", "code"),
    [
        (None, 0),
        (Death(exit_code=1, served_s=None, oom=True), 3),
        (Death(exit_code=1, served_s=None, oom=False), 4),
        (Death(exit_code=137, served_s=5.0, oom=None), 4),
    ],
)
def test_the_exit_code_says_why_it_ended(death: Death | None, code: int) -> None:
    assert exit_code(death) == code


def test_a_dry_run_is_two_commands_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    options = UpOptions(written="true", dry_run=True)
    assert answer(("m", "--api-key", "sk-engine"), {"max_num_seqs": 8, "port": 80}, options) == 0
    page = capsys.readouterr().out
    assert "true m --api-key *** --max-num-seqs 8 --host 127.0.0.1 --port " in page
    assert "export SLUICE_UPSTREAM_URLS=http://127.0.0.1:" in page
    assert "clients at 0.0.0.0:80; SLUICE_MAX_IN_FLIGHT is 7" in page
    assert page.rstrip().endswith("sluice serve")


def test_its_warnings_stand_at_the_end() -> None:
    arguments = read_arguments(("m", "--max-num-seqs", "8"))
    plan = plan_up(("true",), arguments, {"max_num_seqs": 16}, 1, {})
    assert as_page(plan).count("\n# warning: ") == 2


def test_an_engine_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(click.ClickException, match=f"--engine-port {port}: .* in use"):
            answer(("m",), {}, UpOptions(written="true", engine_port=port, dry_run=True))


def test_a_log_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"--engine-log .*: Is a directory"):
        answer(("m",), {}, UpOptions(written="true", engine_log=tmp_path))


def test_the_gateway_gets_the_plans_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[object] = []
    monkeypatch.setattr(
        module, "run_gateway", lambda settings, _companion: served.append(settings.max_in_flight)
    )
    assert answer(("m", "--max-num-seqs", "64"), {}, UpOptions(written="true")) == 0
    assert served == [57]
