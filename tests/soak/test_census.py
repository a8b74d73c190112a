"""What a process holds is counted, and what it keeps by mistake stands out."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from tests.soak.census import BLOCKS, EXACT, ITEMS, KEPT, KNOTTED, SPARE, left_behind, take_census
from tests.soak.rest import steady

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever was there before the test stays out of sight of every census. Among the thousands
    of other tests one takes seconds; and if they came out of what tests/conftest.py freezes, every
    later collection in this process would look through all of them again."""
    gc.freeze()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
    yield
    gc.enable()


class Held:
    """Something of a request."""


@pytest.mark.usefixtures("nothing_else")
def test_objects_are_counted_by_type_and_those_that_are_garbage_are_not() -> None:
    name = f"{Held.__module__}.Held"
    before = take_census().get(name, 0)
    held = [Held() for _ in range(70)]
    knot = Held()
    knot.self = knot  # type: ignore[attr-defined]
    del knot
    assert take_census()[name] - before == len(held)


@pytest.mark.usefixtures("nothing_else")
def test_what_only_holds_itself_is_counted_as_a_knot_and_then_gone() -> None:
    name = f"{KNOTTED}{Held.__module__}.Held"
    gc.disable()
    for _ in range(70):
        knot = Held()
        knot.self = knot  # type: ignore[attr-defined]
    del knot
    assert take_census()[name] == 70
    assert name not in take_census()


def test_of_three_looks_the_least_counts_but_of_knots_the_first() -> None:
    knot = f"{KNOTTED}tuple"
    looks = [{"a": 3, "b": 1, knot: 9}, {"a": 2, "b": 1}, {"a": 4, "b": 1, "c": 1}]
    assert steady(looks) == {"a": 2, "b": 1, "c": 0, knot: 9}


def test_knots_of_ours_are_left_behind_and_those_of_others_are_the_collectors() -> None:
    ours, others = f"{KNOTTED}proxy.edge.connection.SluiceProtocol", f"{KNOTTED}httpx.Request"
    assert left_behind({}, {ours: 2}, SPARE) == {}
    assert left_behind({}, {ours: 3, others: 10_000}, SPARE) == {ours: 3}


@pytest.mark.usefixtures("nothing_else")
def test_bytes_in_a_list_are_seen_by_the_list() -> None:
    before = take_census()
    kept = [b"%d" % number for number in range(5_000)]
    after = take_census()
    assert after[ITEMS + "list"] - before[ITEMS + "list"] >= len(kept)
    assert after[BLOCKS] - before[BLOCKS] >= len(kept)


@pytest.mark.usefixtures("nothing_else")
def test_a_coroutine_is_counted_by_its_function() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    one = waits()
    assert [name for name in take_census() if name.startswith("coroutine ") and "waits" in name]
    one.close()


def test_of_what_a_request_is_made_of_three_are_too_many() -> None:
    for name in (*EXACT, "coroutine Gateway._handle"):
        assert left_behind({name: 5}, {name: 8}, SPARE) == {name: 3}
        assert left_behind({name: 5}, {name: 7}, SPARE) == {}


def test_what_has_a_bound_may_fill_up_to_it() -> None:
    for name, bound in KEPT.items():
        assert left_behind({}, {name: bound}, SPARE) == {}
        assert left_behind({}, {name: bound + 1}, SPARE) == {name: bound + 1}


def test_a_type_of_which_many_are_new_is_left_behind() -> None:
    assert left_behind({}, {"proxy.edge.visit.Visit": SPARE + 1}, SPARE)
    assert not left_behind({}, {"proxy.edge.visit.Visit": SPARE}, SPARE)
