"""Requests per second through each proxy on one core, side by side, in interleaved rounds.

    python -m tests.bench.throughput [--rounds 5] [--seconds 4] [--peers BIN_DIR]

Core 0 runs the proxy, core 1 the load (wrk, 32 connections, small JSON) and the fake engine. Every
figure is the median over the rounds, with least and most, and as a ratio to vllm-router in the
same round, which is what a noisy machine disturbs least. CPU is the user and system time of the
proxy's process tree. `--peers` is a virtual environment's bin folder with vllm-router, uvicorn,
fastapi and httpx in it; without it Sluice is measured alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROXY_CORE, _LOAD_CORE = "0", "1"
_CONNECTIONS = 32
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Contender:
    """`command` listens on `port` and forwards to the fake engine."""

    name: str
    port: int
    command: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _contenders(engine_port: int, peers: Path | None, pythons: list[str]) -> list[Contender]:
    engine = f"http://127.0.0.1:{engine_port}"
    found = [Contender("direct", engine_port)]
    if peers is not None:
        port = _free_port()
        uvicorn = [str(peers / "uvicorn"), "tests.bench.fastapi_httpx:app", "--port", str(port)]
        found.append(
            Contender(
                "FastAPI + httpx",
                port,
                [*uvicorn, "--no-access-log", "--log-level", "warning"],
                {"UPSTREAM": engine},
            )
        )
        port = _free_port()
        router = [str(peers / "vllm-router"), "--worker-urls", engine, "--port", str(port)]
        limits = ["--max-concurrent-requests=64", "--queue-size=128", "--queue-timeout-secs=5"]
        quiet = ["--log-level", "warning", "--prometheus-port", str(_free_port())]
        found.append(Contender("vllm-router", port, [*router, *limits, *quiet]))
    for python in pythons:
        for client in ("pool", "httpx"):
            port = _free_port()
            settings = {
                "SLUICE_UPSTREAM_URLS": engine,
                "SLUICE_PORT": str(port),
                "SLUICE_ADMIN_PORT": "0",
                "SLUICE_MAX_IN_FLIGHT": "64",
                "SLUICE_MAX_QUEUE_DEPTH": "128",
                "SLUICE_UPSTREAM_CLIENT": client,
                "SLUICE_LOG_LEVEL": "warning",
            }
            name = f"Sluice, {client}, {_version(python)}"
            found.append(Contender(name, port, [python, "-m", "proxy", "serve"], settings))
    return found


def _version(python: str) -> str:
    script = "import sys; print('Python %d.%d' % sys.version_info[:2])"
    return subprocess.check_output([python, "-c", script], text=True).strip()  # noqa: S603 - an interpreter the caller named


@contextlib.contextmanager
def _running(core: str, command: list[str], environment: Mapping[str, str]) -> Iterator[int]:
    process = subprocess.Popen(  # noqa: S603 - the contenders above
        ["taskset", "-c", core, *command],  # noqa: S607 - wherever util-linux put it
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _until_it_answers(port: int) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=b'{"model":"tiny","messages":[{"role":"user","content":"Hello"}]}',
        headers={"Content-Type": "application/json"},
    )
    for _ in range(300):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(request, timeout=2).read()  # noqa: S310 - loopback
            return
        time.sleep(0.1)
    raise SystemExit(f"nothing answers on port {port}")


def _cpu_seconds(root: int) -> float:
    """User and system time of a process tree, of what has ended in it too."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == root:  # its process group
                total += sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    return total


def _wrk(port: int, seconds: int, script: str) -> tuple[float, int]:
    """Requests per second, and how many there were. Refuses to report errors as speed."""
    command = ["taskset", "-c", _LOAD_CORE, "wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{seconds}s"]
    command += ["--timeout", "10s"]
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    out = subprocess.check_output([*command, "-s", script, url], text=True)  # noqa: S603 - wrk
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"errors under load on port {port}:\n{out}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    count = re.search(r"(\d+) requests in", out)
    assert rate is not None
    assert count is not None
    return float(rate[1]), int(count[1])


def _measure(contenders: list[Contender], rounds: int, seconds: int, script: str) -> None:
    for number in range(rounds):
        for contender in contenders:
            with contextlib.ExitStack() as stack:
                pid = 0
                if contender.command:
                    running = _running(_PROXY_CORE, contender.command, contender.environment)
                    pid = stack.enter_context(running)
                _until_it_answers(contender.port)
                _wrk(contender.port, 1, script)  # warm
                before = _cpu_seconds(pid)
                rate, count = _wrk(contender.port, seconds, script)
                contender.rates.append(rate)
                contender.cpu_us.append((_cpu_seconds(pid) - before) / count * 1e6)
            print(f"round {number + 1}: {contender.name}: {rate:,.0f}/s", file=sys.stderr)


def _table(contenders: list[Contender]) -> str:
    reference = next((one for one in contenders if one.name == "vllm-router"), None)
    lines = [
        "| proxy | requests/s (least - most) | x vllm-router | CPU us/request |",
        "| --- | --- | --- | --- |",
    ]
    for one in contenders:
        ratio = "-"
        if reference is not None:
            pairs = zip(one.rates, reference.rates, strict=True)
            ratio = f"{statistics.median(mine / theirs for mine, theirs in pairs):.2f}"
        spread = f"{min(one.rates):,.0f} - {max(one.rates):,.0f}"
        cpu = f"{statistics.median(one.cpu_us):.1f}" if one.command else "-"
        rate = f"{statistics.median(one.rates):,.0f}"
        lines.append(f"| {one.name} | {rate} ({spread}) | {ratio} | {cpu} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--python", action="append", help="an interpreter with Sluice installed")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install wrk")
    engine_port = _free_port()
    script = Path(__file__).with_name("chat.lua")
    contenders = _contenders(engine_port, arguments.peers, arguments.python or [sys.executable])
    engine = [sys.executable, "-m", "tests.bench.fake_upstream", str(engine_port)]
    with _running(_LOAD_CORE, engine, {}):
        _measure(contenders, arguments.rounds, arguments.seconds, str(script))
    print(_table(contenders))


if __name__ == "__main__":
    main()
