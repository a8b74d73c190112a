from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import APIRouter

from proxy import __version__
from proxy.edge.admin_openapi import SCHEMAS, description
from tests.support.asgi_transport import AsgiClient
from tests.support.gateway_in_memory import gateway
from tests.support.scripted_app import ScriptedApp
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "the-token-of-an-operator"


def shown(**settings: object) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with gateway(ScriptedApp(), **settings) as sluice:
            admin = AsgiClient(sluice.application.admin)
            answer = await admin.request("GET", b"/openapi.json")
            page: dict[str, Any] = json.loads(answer.body)
            return page

    return run(scenario())


def references(page: object) -> Iterator[str]:
    if isinstance(page, dict):
        if "$ref" in page:
            yield page["$ref"]
        for one in page.values():
            yield from references(one)
    elif isinstance(page, list):
        for one in page:
            yield from references(one)


def test_every_path_of_the_listener_is_described_with_its_methods() -> None:
    page = shown(admin_token=TOKEN)
    methods = {path: {method.upper() for method in one} for path, one in page["paths"].items()}
    assert methods == {
        "/healthz": {"GET", "HEAD"},
        "/readyz": {"GET", "HEAD"},
        "/metrics": {"GET"},
        "/status": {"GET"},
        "/status.json": {"GET"},
        "/status/events": {"GET"},
        "/openapi.json": {"GET"},
        "/admin/settings": {"GET", "PATCH"},
        "/admin/drain": {"GET", "PUT"},
    }
    assert page["info"]["version"] == __version__


def test_what_cannot_be_changed_is_not_described() -> None:
    assert not [path for path in shown()["paths"] if path.startswith("/admin")]


def test_the_bounds_are_those_of_the_settings() -> None:
    change = shown(admin_token=TOKEN)["components"]["schemas"]["Change"]["properties"]
    assert change["max_in_flight"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000,
    }
    assert change["queue_timeout"]["anyOf"][0] == {
        "type": "number",
        "minimum": 0,
        "maximum": 86_400,
    }
    assert change["shadow"]["anyOf"][0] == {"type": "boolean"}


def test_nothing_in_it_leads_nowhere() -> None:
    page = shown(admin_token=TOKEN)
    for reference in references(page):
        found: Any = page
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


@pytest.mark.parametrize("path", ["/status", "/nowhere"])
def test_a_route_brings_schemas_of_its_own(path: str) -> None:
    router = APIRouter()

    @router.get(path, openapi_extra={SCHEMAS: {"Own": {"type": "null"}}})
    async def own() -> None: ...

    page = description(router.routes)
    assert page["components"]["schemas"]["Own"] == {"type": "null"}
    assert list(page["paths"]) == [path] * (path == "/status")
