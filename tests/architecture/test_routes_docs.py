"""docs/routes.md and the allow-list name the same paths."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.edge.gateway import LOCAL_PATHS
from proxy.edge.routes import Access, Route, RouteTable

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text()
_PATH = re.compile(r"`(/[^` ]*)`")
WITH_ID = {"/v1/models/{id}", "/v1/responses/{id}", "/v1/responses/{id}/cancel"}


def section(title: str) -> set[str]:
    text = PAGE.split(f"## {title}", 1)[1].split("\n## ", 1)[0]
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return set(_PATH.findall(rows))


def listed(access: Access) -> set[str]:
    table = RouteTable.build()
    paths = table.paths()
    return {
        path.decode()
        for path in paths
        for method in ("GET", "POST", "DELETE")
        if isinstance(route := table.match(method, path), Route) and route.access is access
    }


def test_every_gated_path_is_on_the_page_and_no_other() -> None:
    assert section("Gated") == listed(Access.GATED)


def test_every_open_path_is_on_the_page_and_no_other() -> None:
    assert section("Open") == listed(Access.OPEN) | WITH_ID


def test_what_is_served_here_is_on_the_page() -> None:
    text = PAGE.split("## Served here", 1)[1]
    assert {path.decode() for path in LOCAL_PATHS} <= set(_PATH.findall(text))
