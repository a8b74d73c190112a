from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.edge.connection_cap import Arrival, Bound, ConnectionCap, counted_as


def test_without_bounds_all_come_in() -> None:
    cap = ConnectionCap()
    assert all(cap.admit(f"10.0.0.{n}").over is None for n in range(1000))


def test_one_too_many_of_an_address_is_told_and_others_are_not_held_up() -> None:
    refused: list[Bound] = []
    cap = ConnectionCap(None, 2, refused.append)
    first, _ = cap.admit("10.0.0.1"), cap.admit("10.0.0.1")
    surplus = cap.admit("10.0.0.1")
    assert surplus == Arrival("", Bound.PER_ADDRESS, is_answered=True)
    assert cap.admit("10.0.0.2").over is None
    assert refused == [Bound.PER_ADDRESS]

    cap.release(surplus)
    assert cap.admit("10.0.0.1").over is Bound.PER_ADDRESS, "it held no place"
    cap.release(first)
    assert cap.admit("10.0.0.1").over is None


def test_one_too_many_in_all_is_refused_whoever_it_is() -> None:
    refused: list[Bound] = []
    cap = ConnectionCap(2, 10, refused.append)
    here = [cap.admit("10.0.0.1"), cap.admit(None)]
    assert cap.admit("10.0.0.2").over is Bound.TOTAL
    assert cap.admit(None).over is Bound.TOTAL
    cap.release(here[1])
    assert cap.admit("10.0.0.2").over is None
    assert refused == [Bound.TOTAL] * 2


def test_a_bound_that_moves_holds_for_who_comes_and_tells_how_many_are_above_it() -> None:
    most = 2
    cap = ConnectionCap(lambda: most)
    here = [cap.admit("10.0.0.1"), cap.admit("10.0.0.1")]
    assert cap.surplus == 0
    most = 1
    assert cap.surplus == 1
    assert cap.admit("10.0.0.1").over is Bound.TOTAL
    cap.release(here[0])
    assert cap.surplus == 0
    assert cap.admit("10.0.0.1").over is Bound.TOTAL
    cap.release(here[1])
    assert cap.admit("10.0.0.1").over is None


def test_without_a_bound_there_is_no_surplus() -> None:
    cap = ConnectionCap()
    cap.admit(None)
    assert cap.surplus == 0


def test_a_socket_without_an_address_counts_in_all_only() -> None:
    cap = ConnectionCap(None, 1)
    assert [cap.admit(None).over for _ in range(3)] == [None] * 3


def test_a_flood_over_the_bound_is_dropped_rather_than_told() -> None:
    cap = ConnectionCap(80, 1)
    cap.admit("10.0.0.1")
    told = [cap.admit("10.0.0.1").is_answered for _ in range(100)]
    assert told == [True] * cap.max_answered + [False] * (100 - cap.max_answered)
    assert cap.max_answered == 16


@pytest.mark.parametrize(("most", "told"), [(None, 16), (8, 16), (256, 32), (100_000, 128)])
def test_fewer_are_told_where_there_is_little_room(most: int | None, told: int) -> None:
    assert ConnectionCap(most).max_answered == told


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("a:b", "a:b", True),
    ],
)
def test_an_ipv6_client_is_a_network_and_a_mapped_one_is_its_ipv4_self(
    one: str, other: str, alike: bool
) -> None:
    assert (counted_as(one) == counted_as(other)) is alike


HOSTS = st.sampled_from([None, "10.0.0.1", "10.0.0.2", "::1"])


@given(st.lists(st.one_of(HOSTS, st.integers(0, 5)), max_size=60))
def test_the_bounds_hold_whoever_comes_and_goes(steps: list[str | int | None]) -> None:
    """A number is the departure of one of those who are there."""
    cap = ConnectionCap(4, 2)
    here: list[tuple[str | None, Arrival]] = []
    for step in steps:
        if isinstance(step, int):
            if step < len(here):
                cap.release(here.pop(step)[1])
            continue
        inside = [host for host, arrival in here if arrival.over is None]
        may = len(inside) < 4 and (step is None or inside.count(step) < 2)
        arrival = cap.admit(step)
        assert (arrival.over is None) is may
        here.append((step, arrival))
    for _, arrival in here:
        cap.release(arrival)
    assert repr(cap) == "<ConnectionCap 0 of 4 open, 0 over>"
