from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from proxy.cli.doctor_sources import is_url, take_in
from proxy.vllm.doctor.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = b"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.5\n"


class Engine(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/metrics"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(PAGE if found else b"")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class PublicListener(Engine):
    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("x-sluice-reason", "unknown_path")
        self.end_headers()


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    yield from served(Engine)


@pytest.fixture(scope="module")
def public_listener() -> Iterator[str]:
    yield from served(PublicListener)


def served(handler: type[Engine]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["", "/", "/v1", "/metrics"])
def test_a_url_of_an_engine_or_of_its_page_is_asked_for_the_page(engine: str, path: str) -> None:
    intake = Intake()
    assert take_in(f"http://{engine}{path}", intake) is None
    metrics = intake.findings().metrics
    assert metrics is not None
    assert metrics.evidence[0].file == f"http://{engine}/metrics"


def test_a_password_in_a_url_is_not_shown(engine: str) -> None:
    intake = Intake()
    take_in(f"http://me:secret@{engine}", intake)
    metrics = intake.findings().metrics
    assert metrics is not None
    assert "secret" not in metrics.evidence[0].file


def test_a_page_that_is_not_there_is_told_with_its_status(engine: str) -> None:
    assert take_in(f"http://{engine}/logs", Intake()) == "GET /logs answers 404"


def test_a_gateway_that_has_no_such_page_is_told_from_an_engine(public_listener: str) -> None:
    assert take_in(f"http://{public_listener}/logs", Intake()) == (
        "GET /logs answers 404: this is Sluice; "
        "give the URL of the engine behind it, or of Sluice's admin listener"
    )


def test_the_public_listener_of_a_gateway_is_named(public_listener: str) -> None:
    assert take_in(f"http://{public_listener}", Intake()) == (
        "GET /metrics answers 404: this is Sluice's public listener; "
        "give the URL of the engine behind it, or of Sluice's admin listener"
    )


def test_what_is_a_url() -> None:
    assert is_url("HTTP://x")
    assert is_url("https://x/y")
    assert not is_url("http.log")
