from __future__ import annotations

import pytest

from tests.bench.event_streams import ends_of_events


@pytest.mark.parametrize(
    ("half_an_end_before", "data", "events"),
    [
        (False, b"b8\r\ndata: {}\n\n\r\n", 1),
        (False, b"data: {}\n\n\r\nb8\r\ndata: {}\n\n\r\n", 2),
        (False, b"HTTP/1.1 200 OK\r\n\r\n", 0),
        (False, b"data: {}\n", 0),
        (True, b"\n\r\nb8\r\ndata: {}\n\n", 2),
        (True, b"data: {}\n\n", 1),
        (True, b"\n\n", 1),
    ],
)
def test_an_event_is_counted_where_it_ends(
    half_an_end_before: bool, data: bytes, events: int
) -> None:
    assert ends_of_events(half_an_end_before, data) == events
