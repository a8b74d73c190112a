from __future__ import annotations

import pytest

from proxy.admission.disciplines.fifo import Fifo


def fifo_of(waiters: str) -> Fifo[str]:
    fifo = Fifo[str]()
    for waiter in waiters:
        fifo.add(waiter)
    return fifo


def test_nobody_is_the_head_of_an_empty_queue() -> None:
    assert Fifo[str]().head() is None
    assert len(Fifo[str]()) == 0


def test_the_first_to_come_is_the_head_and_stays_in_the_queue() -> None:
    fifo = fifo_of("abc")
    assert fifo.head() == "a"
    assert fifo.head() == "a"
    assert len(fifo) == 3


def test_whoever_leaves_from_the_middle_does_not_disturb_the_order() -> None:
    fifo = fifo_of("abcd")
    fifo.remove("b")
    served = []
    while (head := fifo.head()) is not None:
        served.append(head)
        fifo.remove(head)
    assert served == ["a", "c", "d"]


def test_whoever_comes_back_stands_at_the_end() -> None:
    fifo = fifo_of("ab")
    fifo.remove("a")
    fifo.add("a")
    assert fifo.head() == "b"


def test_removing_somebody_who_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        fifo_of("a").remove("b")
