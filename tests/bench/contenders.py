"""What is compared: eight ways from a client to an engine, limits on in all that have any.

A contender is started anew for each measurement, in front of an engine, on a port of its own.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.bench.peers import GOAL_PYTHON, OTHER_PYTHON
from tests.bench.processes import free_port, running, until_it_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.bench.peers import Peers

DIRECT = "direct"
ARTICLE = "the article's snippet"
FASTAPI = "FastAPI + httpx"
HAPROXY = "HAProxy"
SGLANG_ROUTER = "sglang-router"
VLLM_ROUTER = "vllm-router"
SLUICE = f"Sluice, pool, Python {GOAL_PYTHON}"
SLUICE_HTTPX = f"Sluice, httpx, Python {GOAL_PYTHON}"
SLUICE_OTHER = f"Sluice, pool, Python {OTHER_PYTHON}"


@dataclass(frozen=True)
class Limits:
    in_flight: int = 64
    waiting: int = 128
    queue_timeout_s: int = 5


@dataclass(frozen=True)
class Wiring:
    """What a contender is told. `scratch` is a folder for what it needs to have written down."""

    port: int
    engine_url: str
    limits: Limits
    scratch: Path


@dataclass(frozen=True)
class Launch:
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Contender:
    """`health`: a path that it answers by itself. `launch` is None where nothing is in between."""

    name: str
    launch: Callable[[Peers, Wiring], Launch] | None
    health: str = ""


def _python_proxy(module: str) -> Callable[[Peers, Wiring], Launch]:
    def launch(peers: Peers, wiring: Wiring) -> Launch:
        uvicorn = peers.program("python-proxies", "uvicorn")
        quiet = ("--no-access-log", "--log-level", "warning")
        environment = {
            "UPSTREAM": wiring.engine_url,
            "SEATS": str(wiring.limits.in_flight),
            "PLACES": str(wiring.limits.waiting),
            "QUEUE_TIMEOUT_S": str(wiring.limits.queue_timeout_s),
        }
        return Launch((uvicorn, module, "--port", str(wiring.port), *quiet), environment)

    return launch


def _router(name: str, quiet: str) -> Callable[[Peers, Wiring], Launch]:
    """The two routers have one ancestor, and the same arguments."""

    def launch(peers: Peers, wiring: Wiring) -> Launch:
        limits = wiring.limits
        command = (
            peers.program(name, "python"),
            *("-m", f"{name.replace('-', '_')}.launch_router"),
            *("--host", "127.0.0.1", "--port", str(wiring.port)),
            *("--worker-urls", wiring.engine_url),
            f"--max-concurrent-requests={limits.in_flight}",
            f"--queue-size={limits.waiting}",
            f"--queue-timeout-secs={limits.queue_timeout_s}",
            *("--log-level", quiet, "--prometheus-port", str(free_port())),
        )
        return Launch(command, {})

    return launch


def _haproxy(peers: Peers, wiring: Wiring) -> Launch:
    configuration = wiring.scratch / "haproxy.cfg"
    limits = wiring.limits
    # A server's maxqueue only makes HAProxy look for another server; with one server it is the
    # rule that refuses. Without http-no-delay an event waits up to 200 ms for another to join it.
    configuration.write_text(f"""\
global
    nbthread 1
    no strict-limits
defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    timeout queue {limits.queue_timeout_s}s
    option http-no-delay
    http-reuse always
listen gateway
    bind 127.0.0.1:{wiring.port} backlog 4096
    monitor-uri /healthz
    http-request deny deny_status 503 if {{ queue(gateway) ge {limits.waiting} }}
    server engine {urlsplit(wiring.engine_url).netloc} maxconn {limits.in_flight} \
maxqueue {limits.waiting}
""")
    return Launch((peers.haproxy, "-db", "-q", "-f", str(configuration)), {})


def _sluice(version: str, client: str) -> Callable[[Peers, Wiring], Launch]:
    def launch(peers: Peers, wiring: Wiring) -> Launch:
        settings = {
            "SLUICE_UPSTREAM_URLS": wiring.engine_url,
            "SLUICE_HOST": "127.0.0.1",
            "SLUICE_PORT": str(wiring.port),
            "SLUICE_ADMIN_PORT": "0",
            "SLUICE_MAX_IN_FLIGHT": str(wiring.limits.in_flight),
            "SLUICE_MAX_QUEUE_DEPTH": str(wiring.limits.waiting),
            "SLUICE_QUEUE_TIMEOUT": str(wiring.limits.queue_timeout_s),
            "SLUICE_UPSTREAM_CLIENT": client,
            "SLUICE_LOG_LEVEL": "warning",
        }
        return Launch((peers.sluice_python(version), "-m", "proxy", "serve"), settings)

    return launch


def contenders() -> dict[str, Contender]:
    """In the order in which they are shown."""
    listed = (
        Contender(DIRECT, None),
        Contender(ARTICLE, _python_proxy("tests.bench.article:app")),
        Contender(FASTAPI, _python_proxy("tests.bench.fastapi_httpx:app")),
        Contender(HAPROXY, _haproxy, health="/healthz"),
        Contender(SGLANG_ROUTER, _router("sglang-router", "error"), health="/liveness"),
        Contender(VLLM_ROUTER, _router("vllm-router", "error"), health="/liveness"),
        Contender(SLUICE, _sluice(GOAL_PYTHON, "pool"), health="/healthz"),
        Contender(SLUICE_HTTPX, _sluice(GOAL_PYTHON, "httpx"), health="/healthz"),
        Contender(SLUICE_OTHER, _sluice(OTHER_PYTHON, "pool"), health="/healthz"),
    )
    return {contender.name: contender for contender in listed}


@contextlib.contextmanager
def started(
    contender: Contender, peers: Peers, engine_url: str, limits: Limits, scratch: Path, core: int
) -> Iterator[tuple[int, int]]:
    """Yields the port on which it answers and its process group; group 0 where nothing runs.

    Raises NotMeasuredError when it does not start.
    """
    if contender.launch is None:
        yield urlsplit(engine_url).port or 80, 0
        return
    wiring = Wiring(free_port(), engine_url, limits, scratch)
    launch = contender.launch(peers, wiring)
    log = scratch / "contender.log"
    with running(core, launch.command, launch.environment, log) as group:
        until_it_answers(wiring.port, group, log)
        yield wiring.port, group
