"""The two FastAPI applications: what the public listener serves itself, and the admin listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from proxy.edge import admin_openapi, error_table
from proxy.edge.answers import OwnAnswer, Refusal
from proxy.edge.request_headers import new_request_id
from proxy.openai_api.errors import ErrorCode, ErrorType, error_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import APIRouter


_NOT_FOR_OPERATORS = OwnAnswer(
    404,
    ErrorType.INVALID_REQUEST,
    ErrorCode.UNKNOWN_PATH,
    "This is the admin listener, which has /metrics, /status, /status.json, /healthz, /readyz and "
    "their description, /openapi.json; /admin/settings and /admin/drain too if SLUICE_ADMIN_TOKEN "
    "is set. Models are served on the other one (SLUICE_PORT).",
)


class MetricsPage(Protocol):
    """What Prometheus is shown."""

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The page and its content type, in the form that `accept` asks for."""
        ...


def public_app(health: APIRouter) -> FastAPI:
    """/healthz and /readyz; the gateway lets nothing else fall through to it."""
    return _bare_app([health])


def admin_app(
    health: APIRouter, metrics: MetricsPage, status: APIRouter, changes: APIRouter | None = None
) -> FastAPI:
    """/healthz, /readyz, /metrics, /status and /openapi.json, which describes them; and /admin,
    where `changes` are allowed."""
    routers = [health, status, *([] if changes is None else [changes])]
    app = _bare_app(routers, _NOT_FOR_OPERATORS)

    @app.get("/metrics")
    async def metrics_page(request: Request) -> Response:
        page, content_type = metrics.page(request.headers.get("accept", ""))
        # Set as a header: a media type given to Response would get a second charset.
        return Response(page, headers={"content-type": content_type})

    @app.get(admin_openapi.PATH)
    async def described() -> JSONResponse:
        own = app.routes  # which has the others' only in some versions of FastAPI
        included = [route for router in routers for route in router.routes]
        return JSONResponse(admin_openapi.description([*own, *included]))

    return app


def _bare_app(
    routers: Iterable[APIRouter], unknown_path: OwnAnswer = error_table.UNKNOWN_PATH
) -> FastAPI:
    """No documentation pages, no redirects, and every error in OpenAI form."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for router in routers:
        app.include_router(router)

    async def http_error(request: Request, error: HTTPException) -> Response:
        return _response(unknown_path) if error.status_code == 404 else _fault(request, error)

    app.add_exception_handler(Refusal, _refused)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, http_error)  # type: ignore[arg-type]  # starlette types it for Exception
    app.add_exception_handler(Exception, _crash)
    return app


async def _refused(_request: Request, refusal: Refusal) -> Response:
    return _response(refusal.answer)


def _fault(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        allowed = tuple(sorted((error.headers or {}).get("Allow", "").split(", ")))
        return _response(error_table.method_not_allowed(request.method, allowed))
    return _response(error_table.bad_request(str(error.detail)), error.status_code)


async def _crash(_request: Request, _error: Exception) -> Response:
    return _response(error_table.INTERNAL_ERROR)


def _response(answer: OwnAnswer, status: int | None = None) -> Response:
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    headers["x-sluice-reason"] = answer.code
    headers["x-request-id"] = new_request_id().decode()
    body = error_body(answer.message, answer.type, answer.code)
    return Response(body, status or answer.status, headers, media_type="application/json")
