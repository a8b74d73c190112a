from __future__ import annotations

import pytest

from proxy.upstream.taker import Taker


class Takes(list[tuple[bytes, bool]]):
    """What was taken; `room` is the answer."""

    room = True

    def __call__(self, data: bytes, is_last: bool) -> bool:
        self.append((data, is_last))
        return self.room


def test_a_piece_that_has_room_is_no_news() -> None:
    takes = Takes()
    taker = Taker(takes)
    assert not taker.give_in_callback(b"ab", is_last=False)
    taker.give(b"c", is_last=False)
    assert takes == [(b"ab", False), (b"c", False)]
    assert not taker.is_done


def test_the_last_piece_may_be_empty_and_is_news() -> None:
    takes = Takes()
    taker = Taker(takes)
    assert taker.give_in_callback(b"", is_last=True)
    assert takes == [(b"", True)]
    assert taker.is_done


def test_a_taker_without_room_is_news() -> None:
    takes = Takes()
    takes.room = False
    taker = Taker(takes)
    assert taker.give_in_callback(b"a", is_last=False)
    assert not taker.has_room


def test_an_error_in_a_callback_is_kept_for_the_task() -> None:
    def refuse(_data: bytes, _is_last: bool) -> bool:
        raise RuntimeError("no")

    taker = Taker(refuse)
    taker.raise_error()
    assert taker.give_in_callback(b"a", is_last=False)
    with pytest.raises(RuntimeError, match="no"):
        taker.raise_error()
