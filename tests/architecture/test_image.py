"""The container image, as far as it can be judged without building it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCKS = ("requirements.lock", "requirements-build.lock")


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / "deploy" / lock).read_text()
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def unmet(requirements: Iterable[str], lock: str) -> list[str]:
    pins = pinned(lock)
    return [
        str(wanted)
        for wanted in map(Requirement, requirements)
        if not wanted.specifier.contains(pins.get(canonicalize_name(wanted.name), "0"))
    ]


def needed_at_run_time() -> set[str]:
    """Every distribution that the installed ones ask for, from ours down."""
    needed: set[str] = set()
    found = {Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    while found:
        name = canonicalize_name(found.pop())
        if name not in needed:
            needed.add(name)
            wanted = map(Requirement, requires(name) or [])
            found |= {one.name for one in wanted if not one.marker or one.marker.evaluate()}
    return needed


def last_stage() -> str:
    return DOCKERFILE.rsplit("\nFROM ", 1)[1]


def copied_from_the_tree() -> list[str]:
    copies = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in copies for source in line.split()[:-1]]


def test_the_lock_meets_every_runtime_requirement() -> None:
    assert unmet(PROJECT["project"]["dependencies"], "requirements.lock") == []


def test_the_image_can_talk_to_a_shared_store() -> None:
    assert unmet(PROJECT["project"]["optional-dependencies"]["redis"], "requirements.lock") == []


def test_the_lock_holds_what_the_requirements_themselves_require() -> None:
    missing = needed_at_run_time() - pinned("requirements.lock").keys()
    # Asked for by an older Python than the image's only.
    assert missing <= {"async-timeout", "exceptiongroup"}


def test_the_build_lock_meets_what_builds_the_wheel() -> None:
    wanted = PROJECT["build-system"]["requires"]
    assert wanted == PROJECT["dependency-groups"]["build"]
    assert unmet(wanted, "requirements-build.lock") == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_none_names_a_place(lock: str) -> None:
    text = (ROOT / "deploy" / lock).read_text()
    pins = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert pins
    assert [pin for pin in pins if "--hash=sha256:" not in pin] == []
    assert "://" not in text
    assert "--index" not in text


def test_it_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\d+):(\d+)$", last_stage(), re.MULTILINE)
    assert users
    assert all(int(uid) and int(gid) for uid, gid in users)


def test_signals_reach_the_gateway_itself() -> None:
    assert 'ENTRYPOINT ["sluice"]' in last_stage()
    assert "STOPSIGNAL SIGTERM" in last_stage()


def test_probes_and_prometheus_reach_the_admin_listener() -> None:
    assert "SLUICE_ADMIN_HOST=0.0.0.0" in last_stage()


def test_the_builder_gets_what_it_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert let_in == {source.rstrip("/") for source in copied_from_the_tree()}
    assert all((ROOT / source).exists() for source in let_in)


class Answer(BaseHTTPRequestHandler):
    """/healthz answers with the status that the server was given, anything else with 404."""

    def do_GET(self) -> None:
        status = getattr(self.server, "health_status", 0)
        self.send_response(status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """The test's output is not the place."""


@contextmanager
def admin_listener(status: int) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    server.health_status = status  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def healthcheck(port: int) -> int:
    environment = os.environ | {"SLUICE_ADMIN_HOST": "0.0.0.0", "SLUICE_ADMIN_PORT": str(port)}
    command = [sys.executable, str(ROOT / "deploy" / "healthcheck.py")]
    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1), (404, 1)])
def test_the_healthcheck_says_what_the_gateway_says(status: int, exit_code: int) -> None:
    with admin_listener(status) as port:
        assert healthcheck(port) == exit_code


def test_the_healthcheck_fails_when_nobody_listens() -> None:
    with admin_listener(200) as port:
        pass
    assert healthcheck(port) == 1
