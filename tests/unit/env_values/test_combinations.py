"""Values that are sound alone and not together."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.env_values.combinations import (
    header_problems,
    limit_problems,
    listener_problems,
    own_address_problems,
    tenant_cap_problems,
    tenant_weight_problems,
    upstream_problems,
    worker_problems,
)


def test_engines_are_named_by_a_file_or_by_a_variable_not_by_both() -> None:
    assert list(upstream_problems(True, None)) == []
    assert list(upstream_problems(False, Path("/etc/engines"))) == []
    (problem,) = upstream_problems(True, Path("/etc/engines"))
    assert problem.startswith("SLUICE_UPSTREAMS_FILE=/etc/engines: ")
    assert "SLUICE_UPSTREAM_URLS" in problem


@pytest.mark.parametrize(("max_num_seqs", "max_in_flight"), [(2, 1), (64, 63), (None, 1)])
def test_a_limit_below_the_engines_is_sound(max_num_seqs: int | None, max_in_flight: int) -> None:
    assert list(limit_problems(max_num_seqs, max_in_flight)) == []


@pytest.mark.parametrize("max_in_flight", [64, 65])
def test_a_limit_at_or_above_the_engines_is_refused_naming_both(max_in_flight: int) -> None:
    (problem,) = limit_problems(64, max_in_flight)
    assert f"SLUICE_MAX_IN_FLIGHT={max_in_flight}" in problem
    assert "SLUICE_MAX_NUM_SEQS=64" in problem


def test_an_engine_of_one_sequence_leaves_no_room_and_the_way_out_is_named() -> None:
    (problem,) = limit_problems(1, 1)
    assert problem.startswith("SLUICE_MAX_NUM_SEQS=1:")
    assert "set SLUICE_MAX_IN_FLIGHT=1 instead" in problem


def test_one_of_the_two_must_be_set() -> None:
    (problem,) = limit_problems(None, 0)
    assert "SLUICE_MAX_NUM_SEQS" in problem
    assert "SLUICE_MAX_IN_FLIGHT" in problem


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("http://127.0.0.1:8080", "SLUICE_PORT=8080"),
        ("http://localhost:8080/v1", "SLUICE_PORT=8080"),
        ("http://[::1]:8080", "SLUICE_PORT=8080"),
        ("http://127.0.0.1", "SLUICE_ADMIN_PORT=80"),
    ],
)
def test_a_gateway_is_not_put_in_front_of_itself(url: str, variable: str) -> None:
    engines = ["http://127.0.0.1:8000", url]
    (problem,) = own_address_problems(engines, "0.0.0.0", 8080, "127.0.0.1", 80)
    assert problem.startswith(f"SLUICE_UPSTREAM_URLS={url}: ")
    assert variable in problem


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:8000", "0.0.0.0", 8080),
        ("http://10.0.0.2:8080", "0.0.0.0", 8080),
        ("http://127.0.0.1:8080", "10.0.0.1", 8080),
        ("http://gpu:8080", "127.0.0.1", 8080),
        ("http://127.0.0.1:8080", "127.0.0.1", 0),
    ],
)
def test_an_engine_elsewhere_may_have_the_same_port(url: str, host: str, port: int) -> None:
    assert list(own_address_problems([url], host, port, "127.0.0.1", 8081)) == []


@pytest.mark.parametrize(
    ("host", "admin_host"),
    [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "::"), ("10.0.0.1", "10.0.0.1")],
)
def test_two_listeners_do_not_share_a_port(host: str, admin_host: str) -> None:
    (problem,) = listener_problems(host, 8080, admin_host, 8080)
    assert problem.startswith("SLUICE_ADMIN_PORT=8080: must differ from SLUICE_PORT")


def test_different_addresses_may_have_the_same_port() -> None:
    assert list(listener_problems("10.0.0.1", 8080, "127.0.0.1", 8080)) == []


def test_any_free_port_is_never_the_same() -> None:
    assert list(listener_problems("0.0.0.0", 0, "0.0.0.0", 0)) == []


def test_one_header_does_not_name_both_priority_and_tenant() -> None:
    (problem,) = header_problems("x-a", "x-a")
    assert problem.startswith("SLUICE_TENANT_HEADER=x-a: must differ from SLUICE_PRIORITY_HEADER")
    assert list(header_problems("x-a", "x-b")) == []
    assert list(header_problems("x-a", None)) == []


def test_a_cap_above_the_limit_would_hold_nobody_back_and_is_refused_naming_both() -> None:
    (problem,) = tenant_cap_problems(9, 8)
    assert problem.startswith("SLUICE_TENANT_MAX_IN_FLIGHT=9: must be at most")
    assert "SLUICE_MAX_IN_FLIGHT=8" in problem


@pytest.mark.parametrize(("cap", "limit"), [(None, 8), (8, 8), (1, 8), (9, 0)])
def test_a_cap_within_the_limit_is_sound(cap: int | None, limit: int) -> None:
    """A limit of 0 is a missing one, which has a line of its own."""
    assert list(tenant_cap_problems(cap, limit)) == []


def test_a_weight_for_a_name_that_no_key_has_is_one_line() -> None:
    (problem,) = tenant_weight_problems(["gold", "a", "tin"], None, ["a", "b"])
    assert problem.startswith("SLUICE_TENANT_WEIGHTS: 'gold', 'tin' must be the name of a client")
    assert "SLUICE_TENANT_HEADER" in problem


def test_weights_without_anything_that_tells_tenants_apart_are_refused() -> None:
    (problem,) = tenant_weight_problems(["gold"], None, [])
    assert "SLUICE_API_KEYS" in problem
    assert "SLUICE_TENANT_HEADER" in problem


@pytest.mark.parametrize(
    ("weighted", "tenant_header", "key_names"),
    [([], None, []), (["a"], None, ["a", "b"]), (["gold"], "x-tenant", []), (["c"], "x-t", ["a"])],
)
def test_a_weight_for_somebody_who_may_come_is_sound(
    weighted: list[str], tenant_header: str | None, key_names: list[str]
) -> None:
    assert list(tenant_weight_problems(weighted, tenant_header, key_names)) == []


def test_several_processes_must_share_the_limit() -> None:
    assert list(worker_problems(1, limit_is_shared=False)) == []
    assert list(worker_problems(4, limit_is_shared=True)) == []
    (problem,) = worker_problems(4, limit_is_shared=False)
    assert problem.startswith("SLUICE_WORKERS=4: needs SLUICE_REDIS_URL")
