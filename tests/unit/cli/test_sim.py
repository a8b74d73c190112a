from __future__ import annotations

import dataclasses
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli import sim as command
from proxy.simulator.faults import Die, Slow, TimedFault
from proxy.simulator.gpu_memory import GIB
from proxy.simulator.options import SimulatorOptions

if TYPE_CHECKING:
    from collections.abc import Callable


def invoked(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Result, list[Any]]:
    """Runs the command with a server that is up at once, and over."""
    calls: list[Any] = []

    async def serve(
        options: SimulatorOptions, host: str, port: int, ready: Callable[[str], None], _log: object
    ) -> None:
        calls.append((options, host, port))
        ready(f"http://{host}:{port}")

    monkeypatch.setattr(command, "serve_simulator", serve)
    return CliRunner().invoke(command.sim, arguments), calls


def test_its_defaults_are_those_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    result, calls = invoked(monkeypatch)
    assert result.exit_code == 0
    assert calls == [(SimulatorOptions(), "127.0.0.1", 8000)]


def test_it_tells_in_one_line_that_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = invoked(monkeypatch, "--max-num-seqs", "8", "--served-model-name", "tiny")
    assert result.stdout == (
        "Simulated vLLM ready on http://127.0.0.1:8000 "
        "(model tiny, max_num_seqs 8, KV cache 43,648 tokens)\n"
    )


def test_every_option_arrives_in_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calls = invoked(
        monkeypatch,
        *("--host", "::1", "--port", "0", "--api-key", "sk-engine", "--block-size", "32"),
        *("--max-num-batched-tokens", "4096", "--max-model-len", "4096", "--seed", "7"),
        *("--no-enable-chunked-prefill", "--max-num-queued-reqs", "9", "--output-tokens", "99"),
        *("--gpu-memory-gib", "80", "--gpu-memory-utilization", "0.85", "--weights-gib", "16"),
        *("--speed", "2", "--step-ms", "5", "--prefill-token-us", "10"),
        *("--decode-sequence-us", "20", "--keep-alive-on-engine-death"),
        *("--enable-server-load-tracking", "--fault", "slow:3@30", "--fault", "die@60"),
    )
    ((options, host, port),) = calls
    assert (host, port) == ("::1", 0)
    assert (options.memory.total_bytes, options.memory.weight_bytes) == (80 * GIB, 16 * GIB)
    assert options.memory.utilization == 0.85
    assert options.faults == (TimedFault(Slow(3.0), 30.0), TimedFault(Die(), 60.0))
    assert dataclasses.astuple(options.cost) == pytest.approx((0.005, 10e-6, 20e-6, 2.0))
    told = options.non_default()
    assert {"api_key", "block_size", "max_model_len", "seed", "max_num_queued_reqs"} <= told.keys()
    assert options.keep_alive_on_engine_death
    assert options.enable_server_load_tracking
    assert not options.enable_chunked_prefill


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fault", "explode"), "none of stall, die"),
        (("--speed", "0"), "speed must be above 0"),
        (("--weights-gib", "24"), "No available memory for the cache blocks"),
        (("--kv-cache-tokens", "100"), "To serve at least one request"),
        (("--port", "65536"), "65536 is not in the range"),
    ],
)
def test_a_bad_value_is_told_and_nothing_is_served(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    result, calls = invoked(monkeypatch, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert calls == []


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(command.sim, ["--port", port])
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last == (
        f"Error: cannot listen on 127.0.0.1 port {port}: address already in use; "
        "choose another with --host or --port"
    )


def test_help_has_examples_and_a_unit_for_every_number() -> None:
    text = CliRunner().invoke(command.sim, ["--help"]).stdout
    assert "Examples:" in text
    for option in command.sim.params:
        assert option.opts[0] in text
    for unit in ("GiB", "Microseconds", "Milliseconds", "Tokens"):
        assert re.search(unit, text)
