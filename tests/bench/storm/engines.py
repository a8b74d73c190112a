"""The engine under the storm, alone on its core: the real vLLM on the CPU, or the simulated one."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.processes import ROOT, NotMeasuredError, clean_environment, free_port
from tests.bench.storm.exchange import MODEL, completion_request, exchange
from tests.support.vllm_launch import vllm_command, vllm_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_NUM_SEQS = 8
MAX_MODEL_LEN = 2048
# Some 8 answers of 200 tokens a second when 7 run at once, as vLLM gives on one core.
_SIM_STEP_MS = 4.0
_READY_WITHIN_S = {"vllm": 180.0, "sim": 20.0}
_STOP_WITHIN_S = 20.0


class Kind(enum.StrEnum):
    VLLM = "vllm"
    SIM = "sim"


@dataclass(frozen=True)
class Engine:
    """`group`: its process group, and `core` is its alone."""

    kind: Kind
    port: int
    core: int
    group: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def running_engine(
    kind: Kind, core: int, scratch: Path, max_num_queued_reqs: int | None = None
) -> Iterator[Engine]:
    """The process is started; until_ready() waits until it serves."""
    port = free_port()
    command, environment = _launch(kind, port, core)
    if max_num_queued_reqs is not None:
        command = (*command, "--max-num-queued-reqs", str(max_num_queued_reqs))
    with (scratch / f"{kind}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the engines of this file
            ["taskset", "-c", str(core), *command],  # noqa: S607 - wherever util-linux put it
            env=environment,
            cwd=scratch,
            stdin=subprocess.PIPE,  # never written to; its end tells the simulator that we are gone
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield Engine(kind, port, core, process.pid)
    finally:
        _stop(process)


def _launch(kind: Kind, port: int, core: int) -> tuple[tuple[str, ...], Mapping[str, str]]:
    shape = ("--max-num-seqs", str(MAX_NUM_SEQS), "--max-model-len", str(MAX_MODEL_LEN))
    if kind is Kind.VLLM:
        home = vllm_home()
        return vllm_command(home, port, *shape), vllm_environment(home, core)
    return (
        *(sys.executable, "-m", "proxy", "sim", "--port", str(port)),
        *("--served-model-name", MODEL, "--step-ms", str(_SIM_STEP_MS), "--exit-with-stdin"),
        *shape,
    ), clean_environment({})


def vllm_home() -> Path:
    """Installs it when it is missing: a few minutes. Raises SystemExit when that fails."""
    script = ROOT / "scripts" / "setup_vllm.sh"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - our own
    if done.returncode != 0:
        raise SystemExit("vLLM could not be installed; see above")
    return Path(done.stdout.strip())


def vllm_version() -> str:
    return vllm_home().name.removeprefix("vllm-")


async def until_ready(port: int, within_s: float, log: Path) -> None:
    """Returns once a completion was answered. Raises NotMeasuredError if none is."""
    give_up_at = time.monotonic() + within_s
    request = completion_request(1)
    while time.monotonic() < give_up_at:
        if (await exchange(port, request, 5.0)).status == 200:
            return
        await asyncio.sleep(0.1)
    raise NotMeasuredError(f"did not start: {_last_line(log)}")


def _last_line(log: Path) -> str:
    if not log.exists():
        return "no output"
    return (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]


async def until_engine_ready(engine: Engine, scratch: Path) -> None:
    await until_ready(engine.port, _READY_WITHIN_S[engine.kind], scratch / f"{engine.kind}.log")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """vLLM has helper processes; all are in the session that the first one was given."""
    _signal_all(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_WITHIN_S)
    _signal_all(process.pid, signal.SIGKILL)
    process.wait()


def _signal_all(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
