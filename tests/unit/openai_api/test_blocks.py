from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.openai_api.blocks import Blocks

pieces = st.lists(st.binary(max_size=5), max_size=6)
places = st.none() | st.integers(-30, 30)


@given(pieces, places, places)
def test_a_slice_is_the_slice_of_the_bytes(
    parts: list[bytes], start: int | None, stop: int | None
) -> None:
    assert Blocks(parts)[start:stop] == b"".join(parts)[start:stop]


@given(pieces)
def test_they_are_as_long_as_all_of_them_and_keep_their_order(parts: list[bytes]) -> None:
    blocks = Blocks(parts)
    assert bytes(blocks) == b"".join(parts)
    assert len(blocks) == len(b"".join(parts))
    assert all(blocks.blocks)


@given(pieces, st.integers(0, 30), st.integers(0, 30))
def test_some_of_them_are_blocks_again(parts: list[bytes], start: int, stop: int) -> None:
    assert bytes(Blocks(parts).between(start, stop)) == b"".join(parts)[start:stop]


def test_whole_blocks_are_not_copied() -> None:
    first, second, third = b"abc", b"def", b"ghi"
    blocks = Blocks([first, second, third]).between(1, 8)
    assert blocks.blocks[1] is second
    assert Blocks([first, second])[3:6] is second


def test_they_are_not_read_backwards() -> None:
    with pytest.raises(ValueError, match="forwards"):
        Blocks([b"abc"])[::-1]
