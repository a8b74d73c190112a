"""Which clients a test is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import CLIENTS, Client

if TYPE_CHECKING:
    from collections.abc import Iterable


def each_call(calls: frozenset[str]) -> pytest.MarkDecorator:
    """`name` and `call` of each client and each of these calls that it has."""
    pairs = [_param(client, call) for client in CLIENTS for call in sorted(client.calls & calls)]
    return pytest.mark.parametrize(("name", "call"), pairs)


def _param(client: Client, *more: str) -> object:
    marks = [pytest.mark.heavy] if client.heavy else []
    return pytest.param(client.name, *more, marks=marks, id="-".join((client.name, *more)))


def each_of(clients: Iterable[Client]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [_param(client) for client in clients])


each_client = each_of(CLIENTS)
