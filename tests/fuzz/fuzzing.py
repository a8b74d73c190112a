"""What the fuzz tests share: how many examples, and how a piece of bytes is cut.

In `make test` the examples are the same each time, few, and nothing is kept of them: a finding
must not depend on the day. `make fuzz` runs the same tests for as long as it is told to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLOW_IS_NO_FINDING = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
)


def examples(count: int) -> settings:
    """For `make test`: so many of them, the same each time."""
    return settings(
        max_examples=int(os.environ.get("SLUICE_TEST_FUZZ_EXAMPLES", count)),
        deadline=None,
        derandomize="SLUICE_TEST_FUZZ_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=_SLOW_IS_NO_FINDING,
    )


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    """The data in pieces, cut at these places, wherever they lie."""
    at = 0
    for place in sorted({place % (len(data) + 1) for place in places}):
        if place > at:
            yield data[at:place]
            at = place
    if at < len(data):
        yield data[at:]


places = st.lists(st.integers(0, 1 << 16), max_size=12)
"""Where to cut; every byte apart comes out of none of them (see one_by_one)."""


def one_by_one(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        yield data[at : at + 1]


def mostly(pieces: st.SearchStrategy[bytes], most: int = 12) -> st.SearchStrategy[bytes]:
    """Bytes joined of pieces that mean something, with a few that mean nothing among them."""
    noise = st.binary(max_size=4)
    return st.lists(st.one_of(pieces, pieces, pieces, noise), max_size=most).map(b"".join)


def assert_is_one_line(error: Exception) -> None:
    """What people are told fits on a line, and moves no terminal's cursor."""
    assert str(error).isprintable(), repr(str(error))
    assert str(error)
