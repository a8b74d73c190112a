"""The gateway's settings as a user gives them: by environment, flag and file, right and wrong.

Field cases R80, R84, R87, R88 and R90. What is wrong stops the start with one line each, before a
socket is opened or the engine is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from proxy.cli.main import sluice
from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DENIED = 1
BAD_SETTINGS = 2
SECRET = "sk-never-shown-4711"
SOUND = {"SLUICE_MAX_NUM_SEQS": "10", "SLUICE_HOST": "127.0.0.1", "SLUICE_PORT": "0"}


@dataclass(frozen=True)
class Refusal:
    """How a start ended that must not succeed."""

    exit_code: int
    printed: str
    problems: list[str]


def refused_start(directory: Path, settings: Mapping[str, str]) -> Refusal:
    """`settings` beside those of SOUND, or in their place."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "proxy", "serve"],
        env={**environment, **SOUND, "SLUICE_ADMIN_PORT": "0", **settings},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    return Refusal(ended.returncode, ended.stdout, ended.stderr.splitlines())


def refused(directory: Path, settings: Mapping[str, str]) -> Refusal:
    """The same command in this process, for the many values that are refused alike: each process
    would take a second and more, all of it for imports."""
    names = {k: None for k in os.environ if k.startswith("SLUICE_")}
    with contextlib.chdir(directory):
        ended = CliRunner(env={**names, **SOUND, **settings}).invoke(sluice, ["serve"])
    return Refusal(ended.exit_code, ended.stdout, ended.stderr.splitlines())


# One line for each thing that is wrong.

BAD_VALUES = {  # every setting with a rule; tests/unit has every rule
    "SLUICE_UPSTREAM_URLS": ["127.0.0.1:8000", "http://a,http://a/v1"],
    "SLUICE_PORT": ["65536"],
    "SLUICE_HOST": ["999.1.1.1"],
    "SLUICE_MAX_NUM_SEQS": ["many", "1"],
    "SLUICE_HEADROOM": ["1.5"],
    "SLUICE_MAX_IN_FLIGHT": ["0", "10"],
    "SLUICE_MAX_QUEUE_DEPTH": ["-1"],
    "SLUICE_QUEUE_TIMEOUT": ["inf"],
    "SLUICE_OVERLOAD_STATUS": ["500"],
    "SLUICE_MAX_BODY_BYTES": ["64MiB"],
    "SLUICE_FIRST_BYTE_TIMEOUT": ["0"],
    "SLUICE_DRAIN_TIMEOUT": ["-1"],
    "SLUICE_EXPOSE": ["GET /v1/../sleep"],
    "SLUICE_API_KEYS_FILE": ["no-such-file"],
    "SLUICE_TRACE_FILE": ["no-such-directory/trace.jsonl"],
    "SLUICE_LOG_LEVEL": ["loud"],
    "SLUICE_SHADOW": ["perhaps"],
    "SLUICE_WORKERS": ["4"],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_bad_value_stops_the_start_in_one_line_with_name_value_and_rule(
    name: str, tmp_path: Path
) -> None:
    """R88, R80: and it exits with the code for bad settings."""
    for value in BAD_VALUES[name]:
        ended = refused(tmp_path, {name: value})
        assert (ended.exit_code, ended.printed) == (BAD_SETTINGS, "")
        (problem,) = ended.problems
        assert problem.startswith(f"error: {name}={value}: ")
        assert len(problem) > len(f"error: {name}={value}: ") + 5


def test_what_the_machine_denies_is_no_bad_setting_and_is_told_in_one_line_too(
    tmp_path: Path,
) -> None:
    """A sound port that somebody else has: the start may succeed another time."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = refused_start(tmp_path, {"SLUICE_ADMIN_PORT": str(port)})
    assert (ended.exit_code, ended.printed) == (DENIED, "")
    (problem,) = ended.problems
    assert problem == (
        f"Error: cannot listen on 127.0.0.1:{port} (SLUICE_ADMIN_HOST, SLUICE_ADMIN_PORT): "
        "Address already in use"
    )


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """R88: nobody wants to start five times to hear of five mistakes."""
    wrong = {"SLUICE_PORT": "x", "SLUICE_QUEUE_TIMEOUT": "y", "SLUICE_MAX_QUEUE": "3"}
    ended = refused_start(tmp_path, wrong)
    assert ended.exit_code == BAD_SETTINGS
    assert len(ended.problems) == 3
    for name in wrong:
        assert sum(name in problem for problem in ended.problems) == 1


UNKNOWN = {
    "SLUICE_MAX_INFLIGHT": "did you mean SLUICE_MAX_IN_FLIGHT?",
    "SLUICE_UPSTREAM_URL": "did you mean SLUICE_UPSTREAM_URLS?",
    "sluice_queue_timeuot": "did you mean SLUICE_QUEUE_TIMEOUT?",
    "SLUICE_ZZZ": "no such setting",
    "SLUICE_REDIS": "did you mean SLUICE_REDIS_URL?",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_setting_that_does_not_exist_is_not_silently_ignored(name: str, tmp_path: Path) -> None:
    """R88"""
    ended = refused(tmp_path, {name: "7"})
    assert ended.exit_code == BAD_SETTINGS
    (problem,) = ended.problems
    assert name.upper() in problem
    assert UNKNOWN[name] in problem


def test_a_limit_that_the_engine_could_not_hold_names_both(tmp_path: Path) -> None:
    """The one mistake that the gateway exists to prevent."""
    ended = refused(tmp_path, {"SLUICE_MAX_NUM_SEQS": "64", "SLUICE_MAX_IN_FLIGHT": "64"})
    (problem,) = ended.problems
    assert "SLUICE_MAX_IN_FLIGHT=64" in problem
    assert "SLUICE_MAX_NUM_SEQS=64" in problem


def test_without_any_limit_it_does_not_guess(tmp_path: Path) -> None:
    ended = refused(tmp_path, {"SLUICE_MAX_NUM_SEQS": ""})
    assert ended.exit_code == BAD_SETTINGS
    (problem,) = ended.problems
    assert "SLUICE_MAX_NUM_SEQS" in problem
    assert "SLUICE_MAX_IN_FLIGHT" in problem


SECRET_FAULTS = {
    "SLUICE_UPSTREAM_API_KEY": f"{SECRET} with blanks",
    "SLUICE_API_KEYS": f"app:{SECRET},other:{SECRET}",
    "SLUICE_UPSTREAM_URLS": f"http://user:{SECRET}@engine:8000",
}


@pytest.mark.parametrize("name", SECRET_FAULTS)
def test_a_fault_in_a_secret_is_told_without_it(name: str, tmp_path: Path) -> None:
    """R88, R123"""
    ended = refused(tmp_path, {name: SECRET_FAULTS[name]})
    assert ended.exit_code == BAD_SETTINGS
    (problem,) = ended.problems
    assert name in problem
    assert "never-shown" not in problem


def test_a_fault_in_a_key_file_is_told_without_the_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"# ours\napp:{SECRET}\napp:{SECRET}2\n")
    ended = refused(tmp_path, {"SLUICE_API_KEYS_FILE": str(keys)})
    (problem,) = ended.problems
    assert f"SLUICE_API_KEYS_FILE={keys}" in problem
    assert "never-shown" not in problem


def test_several_processes_without_a_shared_limit_are_refused(tmp_path: Path) -> None:
    """R80, R84: four processes with a limit of their own each would be four times the limit."""
    ended = refused(tmp_path, {"WEB_CONCURRENCY": "4"})
    assert ended.exit_code == BAD_SETTINGS
    (problem,) = ended.problems
    assert problem.startswith("error: WEB_CONCURRENCY=4: ")
    assert "SLUICE_REDIS_URL" in problem


def test_an_address_in_use_is_one_line_that_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = refused_start(tmp_path, {"SLUICE_PORT": str(port)})
    assert ended.exit_code != 0
    (problem,) = ended.problems
    assert f"127.0.0.1:{port}" in problem
    assert "SLUICE_PORT" in problem


def test_a_start_that_is_refused_has_asked_the_engine_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedUpstream() as upstream:
            wrong = {"SLUICE_UPSTREAM_URLS": upstream.url, "SLUICE_QUEUE_TIMEOUT": "soon"}
            ended = await asyncio.to_thread(refused_start, tmp_path, wrong)
            assert ended.exit_code == BAD_SETTINGS
            assert upstream.connections_accepted == 0

    asyncio.run(scenario())


# What is right has its effect.


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    """R88: seen in the effect, and each is used where nothing beats it."""
    (tmp_path / ".env").write_text(
        "SLUICE_MAX_IN_FLIGHT=3\nSLUICE_MAX_QUEUE_DEPTH=7\nSLUICE_OVERLOAD_STATUS=429\n"
    )

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url, "--max-in-flight", "5", directory=tmp_path, max_queue_depth=0
            ) as sluice,
        ):
            assert await sluice.metric("sluice_concurrency_limit") == 5
            assert await sluice.metric("sluice_max_queue_depth") == 0
            upstream.handler = hold = Hold()
            async with await RawClient.connect(sluice.port) as running:
                running.send(request_bytes(body={"n": 5}))
                await upstream.until(lambda: upstream.inflight == 1)
                assert (await ask_once(sluice.port, request_bytes())).status == 429
                hold.release()
                await running.answer()

    asyncio.run(scenario())


def test_an_unknown_name_in_the_file_is_reported_with_the_file(tmp_path: Path) -> None:
    """R88"""
    (tmp_path / ".env").write_text("SLUICE_MAX_INFLIGHT=3\n")
    ended = refused(tmp_path, {})
    (problem,) = ended.problems
    assert "SLUICE_MAX_INFLIGHT" in problem
    assert ".env" in problem


def test_an_empty_value_is_an_unset_one(tmp_path: Path) -> None:
    """R88: as compose files and charts write it."""
    empty = dict.fromkeys(
        ("max_in_flight", "max_queue_depth", "queue_timeout", "api_keys", "expose", "trace_file"),
        "",
    )

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, directory=tmp_path, max_num_seqs=11, **empty) as sluice,
        ):
            assert await sluice.metric("sluice_concurrency_limit") == 9  # floor(11 x 0.9)
            assert await sluice.metric("sluice_max_queue_depth") == 9
            assert (await ask_once(sluice.port, request_bytes())).status == 200

    asyncio.run(scenario())


def test_names_without_our_prefix_have_no_effect(tmp_path: Path) -> None:
    """R90: what other software, shells and Kubernetes leave in an environment."""
    strangers = {
        "HOST": "203.0.113.1",
        "PORT": "tcp://10.0.0.1:8000",
        "VERSION": "9",
        "DEBUG": "true",
        "TIMEOUT": "0",
        "MODEL": "x",
        "WEB_CONCURRENCY": "1",
        "UVICORN_PORT": "1",
        "MAX_IN_FLIGHT": "1",
        # A Service named "sluice" in the same namespace.
        "SLUICE_SERVICE_HOST": "10.0.0.1",
        "SLUICE_SERVICE_PORT": "8080",
        "SLUICE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "SLUICE_PORT_8080_TCP_PROTO": "tcp",
        "SLUICE_PORT": "tcp://10.0.0.1:8080",
    }

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url,
                "--port",
                "0",
                directory=tmp_path,
                environment=strangers,
                max_in_flight=3,
            ) as sluice,
        ):
            assert await sluice.metric("sluice_concurrency_limit") == 3
            assert (await ask_once(sluice.port, request_bytes())).status == 200

    asyncio.run(scenario())


def test_one_line_at_start_has_the_effective_settings_and_no_secret(tmp_path: Path) -> None:
    """R88: derived values included."""
    keys = tmp_path / "keys"
    keys.write_text(f"file:{SECRET}-in-file\n")
    secrets = {
        "upstream_api_key": f"{SECRET}-engine",
        "api_keys": f"app:{SECRET}-client",
        "api_keys_file": str(keys),
    }

    async def scenario() -> list[str]:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_num_seqs=20, queue_timeout=2.5, **secrets) as sluice,
        ):
            return sluice.log

    log = asyncio.run(scenario())
    (line,) = [line for line in log if "settings: " in line]
    for shown in (
        "SLUICE_MAX_NUM_SEQS=20",
        "SLUICE_MAX_IN_FLIGHT=18",
        "SLUICE_MAX_QUEUE_DEPTH=18",
        "SLUICE_QUEUE_TIMEOUT=2.5",
        "SLUICE_DRAIN_TIMEOUT=30",
        "SLUICE_UPSTREAM_API_KEY=***",
        "SLUICE_API_KEYS=***",
    ):
        assert shown in line
    assert not [line for line in log if "never-shown" in line]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/engines/a", "/engines/a/v1/"])
def test_the_engines_url_may_be_written_as_people_write_it(suffix: str) -> None:
    """R88: the path that the engine sees is the client's, behind the prefix if there is one."""
    prefix = b"/engines/a" if "engines" in suffix else b""

    async def scenario() -> None:
        upstream = ScriptedUpstream()
        upstream.probes = {prefix + path: answer for path, answer in upstream.probes.items()}
        async with upstream, gateway(upstream.url + suffix, max_in_flight=2) as sluice:
            assert (await ask_once(sluice.port, request_bytes())).status == 200
            models = request_bytes("/v1/models?limit=1", b"", "GET")
            assert (await ask_once(sluice.port, models)).status == 200
            assert [request.target for request in upstream.seen] == [
                prefix + b"/v1/completions",
                prefix + b"/v1/models?limit=1",
            ]

    asyncio.run(scenario())


def test_client_keys_come_from_the_environment_and_from_a_file(tmp_path: Path) -> None:
    """R88: both count, whatever way they are written in."""
    keys = tmp_path / "keys"
    keys.write_text("# of the team\nnight:key-of-the-night\n\n  key-without-a-name  \n")

    async def scenario() -> None:
        settings = {"max_in_flight": 2, "api_keys": "a:key-a, key-b", "api_keys_file": keys}
        async with ScriptedUpstream() as upstream, gateway(upstream.url, **settings) as sluice:

            async def status(key: str) -> int:
                headers = {"Authorization": f"Bearer {key}"}
                return (await ask_once(sluice.port, request_bytes(headers=headers))).status

            for key in ("key-a", "key-b", "key-of-the-night", "key-without-a-name"):
                assert await status(key) == 200
            for key in ("a", "a:key-a", "night", "# of the team", "key-", ""):
                assert await status(key) == 401

    asyncio.run(scenario())


def test_a_hangup_signal_changes_nothing() -> None:
    """R87: there is no reload; what many daemons take for one must not end or reset this one."""

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, max_in_flight=1, max_queue_depth=1) as sluice,
            await RawClient.connect(sluice.port) as running,
            await RawClient.connect(sluice.port) as waiting,
        ):
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            waiting.send(request_bytes())
            await sluice.until_metric("sluice_queue_depth", 1)
            for _ in range(3):
                sluice.process.send_signal(signal.SIGHUP)
            await upstream.until(lambda: any("SIGHUP" in line for line in sluice.log))
            assert await sluice.metric("sluice_in_flight") == 1
            assert await sluice.metric("sluice_queue_depth") == 1
            assert await sluice.metric("sluice_draining") == 0
            assert upstream.inflight == 1
            hold.release()
            assert (await running.answer()).status == 200
            assert (await waiting.answer()).status == 200
        assert sluice.exit_code == 0

    asyncio.run(scenario())
