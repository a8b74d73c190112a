from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fastapi import APIRouter, HTTPException
from prometheus_client.parser import text_string_to_metric_families

from proxy.admission.snapshot import AdmissionSnapshot
from proxy.edge.health import health_router
from proxy.edge.local_apps import admin_app, public_app
from proxy.telemetry.metrics import Metrics
from tests.support.asgi_transport import AsgiClient
from tests.support.scripted_app import error_of
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from tests.support.asgi_transport import Response


def metrics() -> Metrics:
    return Metrics(["completions"], lambda: AdmissionSnapshot((), 0, 4, False), dict, str)


def apps() -> list[ASGIApp]:
    health = health_router(dict, lambda: False, names_engines=True)
    return [public_app(health), admin_app(health, metrics(), APIRouter())]


def ask(app: ASGIApp, method: str, path: bytes, accept: bytes = b"*/*") -> Response:
    return run(AsgiClient(app).request(method, path, [(b"accept", accept)]))


def check_own_error(answer: Response, status: int, code: str) -> None:
    error = error_of(answer.body)
    assert (answer.status, error["code"], error["param"]) == (status, code, None)
    assert error["message"]
    assert answer.header("x-sluice-reason") == code
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("x-request-id")


@pytest.mark.parametrize(
    "path",
    [b"/docs", b"/redoc", b"/docs/oauth2-redirect", b"/", b"/healthz/", b"/x"],
)
def test_there_are_no_framework_pages_and_no_redirects(path: bytes) -> None:
    for app in apps():
        check_own_error(ask(app, "GET", path), 404, "unknown_path")


def test_only_the_admin_listener_describes_itself() -> None:
    public, admin = apps()
    check_own_error(ask(public, "GET", b"/openapi.json"), 404, "unknown_path")
    answer = ask(admin, "GET", b"/openapi.json")
    assert (answer.status, answer.header("content-type")) == (200, "application/json")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_probes_take_get_and_head_only(method: str) -> None:
    for app in apps():
        answer = ask(app, method, b"/healthz")
        check_own_error(answer, 405, "method_not_allowed")
        assert answer.header("allow") == "GET, HEAD"


def test_who_looks_for_something_on_the_admin_listener_is_told_what_is_there() -> None:
    _, admin = apps()
    message = str(error_of(ask(admin, "GET", b"/admin/settings").body)["message"])
    assert "SLUICE_ADMIN_TOKEN" in message
    assert "SLUICE_PORT" in message


def test_the_public_app_has_no_metrics() -> None:
    public, _ = apps()
    check_own_error(ask(public, "GET", b"/metrics"), 404, "unknown_path")


def test_prometheus_gets_its_page_with_its_content_type() -> None:
    _, admin = apps()
    answer = ask(admin, "GET", b"/metrics")
    assert answer.status == 200
    assert answer.header("content-type") == metrics().page()[1]
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"sluice_in_flight", "sluice_queue_depth", "sluice_build_info"} <= names


def test_prometheus_gets_openmetrics_when_it_asks_for_it() -> None:
    _, admin = apps()
    answer = ask(admin, "GET", b"/metrics", b"application/openmetrics-text;version=1.0.0")
    content_type = answer.header("content-type") or ""
    assert content_type.startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


def test_an_error_of_the_framework_is_an_openai_error_with_its_status() -> None:
    router = APIRouter()

    @router.get("/teapot")
    async def teapot() -> None:
        raise HTTPException(418, "short and stout")

    answer = ask(public_app(router), "GET", b"/teapot")
    check_own_error(answer, 418, "bad_request")
    assert error_of(answer.body)["message"] == "short and stout"


def test_a_crash_is_answered_without_a_word_about_the_inside() -> None:
    router = APIRouter()

    @router.get("/crash")
    async def crash() -> None:
        raise RuntimeError("secret of the inside")

    async def scenario() -> None:
        exchange = AsgiClient(public_app(router)).start("GET", b"/crash")
        head = await exchange.head()
        body = await exchange.read()
        with pytest.raises(RuntimeError):  # starlette hands it to the server, which logs it
            await exchange.ended()
        assert head.status == 500
        assert error_of(body)["code"] == "internal_error"
        assert b"secret" not in body

    run(scenario())
