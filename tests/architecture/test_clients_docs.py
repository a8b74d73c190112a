"""docs/clients.md says of each client what tests/interop holds it to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clients import CLIENTS, Client
from tests.interop.expectations import BROKEN, CLASSES, TIMEOUT

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()

of_each = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def table(first_line: str) -> dict[str, list[str]]:
    """The other cells of its rows, by what stands in the first."""
    block = PAGE[PAGE.index(first_line) :].split("\n\n", maxsplit=1)[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in block.splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


@of_each
def test_the_exceptions_of_a_client(client: Client) -> None:
    kinds = [400, 401, 404, 413, 429, 502, 503, TIMEOUT, BROKEN]
    head = "| client | " + " | ".join(str(kind) for kind in kinds) + " |"
    assert table(head)[client.title] == [f"`{CLASSES[client.name][kind]}`" for kind in kinds]


@of_each
def test_the_version_of_a_client_and_whether_it_heeds_the_header(client: Client) -> None:
    version, _retries, heeds = table("| client | version tried |")[client.title]
    assert version == (client.version or "any")
    assert heeds == ("yes" if client.obeys_tickets else "no")
