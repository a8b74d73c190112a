"""/openapi.json: the admin listener's own description, for programs that read OpenAPI 3.1.

Written by hand, in admin_openapi.json, but for what may be changed: that comes with its route. Of
what is written there only that is shown which this listener serves.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

from proxy import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import BaseRoute

PATH = "/openapi.json"
# Where a route has schemas that go with it, in what FastAPI calls its openapi_extra.
SCHEMAS = "schemas"


def description(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    page: dict[str, Any] = json.loads((files("proxy.edge") / "admin_openapi.json").read_text())
    served = {route.path: route for route in routes if isinstance(route, APIRoute)}
    page["info"]["version"] = __version__
    page["paths"] = {path: one for path, one in page["paths"].items() if path in served}
    for route in served.values():
        page["components"]["schemas"] |= (route.openapi_extra or {}).get(SCHEMAS, {})
    return page
