"""Values that are sound alone and not together."""

from __future__ import annotations

import pytest

from proxy.env_values.combinations import limit_problems, listener_problems


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
