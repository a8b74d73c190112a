from __future__ import annotations

import resource

import pytest

from proxy.cli.connection_caps import admin_cap, most_to_engines, public_cap
from proxy.edge.connection_cap import Bound, ConnectionCap
from tests.support.gateway_in_memory import settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def public(
    files: int, monkeypatch: pytest.MonkeyPatch, to_engines: int = 20, **values: object
) -> ConnectionCap:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    return public_cap(settings(**values), lambda _: None, lambda: to_engines)


@pytest.mark.parametrize("files", [256, 1024, 65_536, 1_048_576])
def test_what_the_engines_and_the_operators_need_is_left(
    files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap = public(files, monkeypatch)
    admin = admin_cap()
    assert cap.max_connections is not None
    assert admin.max_connections is not None
    taken = cap.max_connections + cap.max_answered + admin.max_connections + admin.max_answered + 20
    assert files * 0.4 <= cap.max_connections < files
    assert taken < files


def test_where_files_have_no_limit_connections_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert public(resource.RLIM_INFINITY, monkeypatch).max_connections is None
    assert admin_cap().max_connections == 256


def test_clients_are_let_in_though_the_seats_alone_need_all_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most as many connections to engines as clients have, who then leave the others' free."""
    cap, admin = public(1024, monkeypatch, to_engines=2000), admin_cap()
    assert cap.max_connections is not None
    assert admin.max_connections is not None
    assert cap.max_connections > 1024 * 0.35
    assert 2 * cap.max_connections + cap.max_answered + admin.max_connections + 63 < 1024


def test_however_few_files_there_are_some_clients_are_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert public(100, monkeypatch, to_engines=2000).max_connections == 16


def test_engines_that_come_take_from_the_clients_and_those_that_go_give_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65_536, 65_536))
    to_engines = 0
    cap = public_cap(settings(), lambda _: None, lambda: to_engines)
    alone = cap.max_connections
    assert alone is not None
    to_engines = 8 * 101  # a headless service of eight pods, with a hundred seats each
    assert cap.max_connections == alone - to_engines
    to_engines = 0
    assert cap.max_connections == alone


@pytest.mark.parametrize(("files", "to_engines"), [(256, 500), (1024, 500), (65_536, 808)])
def test_what_is_kept_to_engines_and_all_clients_have_room_together(
    files: int, to_engines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap, admin = public(files, monkeypatch, to_engines), admin_cap()
    kept = most_to_engines(cap)
    assert kept is not None
    assert cap.max_connections is not None
    assert admin.max_connections is not None
    taken = cap.max_connections + cap.max_answered + admin.max_connections + 63
    if to_engines == 808:
        assert kept() >= to_engines, "one for each seat, and for each request without one"
    else:
        assert kept() >= cap.max_connections, "one for each client"
        assert taken + kept() == files


def test_more_clients_than_fit_leave_the_engines_a_few_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = most_to_engines(public(1024, monkeypatch, max_connections=100_000))
    assert kept is not None
    assert 100 < kept() < 128


def test_as_many_are_kept_to_engines_as_come_where_files_have_no_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert most_to_engines(public(resource.RLIM_INFINITY, monkeypatch)) is None


def test_what_is_set_is_what_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    cap = public(1024, monkeypatch, max_connections=5000, max_connections_per_address=10)
    assert (cap.max_connections, cap.max_per_address) == (5000, 10)
    assert public(1024, monkeypatch).max_per_address is None


def test_each_of_several_processes_has_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    several = {"workers": 4, "redis_url": "redis://store:6379/0"}
    cap = public(1024, monkeypatch, max_connections=100, max_connections_per_address=10, **several)
    assert (cap.max_connections, cap.max_per_address) == (25, 3)


def test_who_is_refused_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    refused: list[Bound] = []
    cap = public_cap(settings(max_connections=1), refused.append, lambda: 0)
    cap.admit("10.0.0.1")
    cap.admit("10.0.0.1")
    assert refused == [Bound.TOTAL]
