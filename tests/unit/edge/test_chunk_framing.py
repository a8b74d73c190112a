from __future__ import annotations

import pytest

from proxy.edge.chunk_framing import MAX_FRAMING_BYTES, ChunkFraming
from proxy.edge.unreadable import UnreadableHeadError


def test_what_is_no_data_adds_up_over_reads_to_the_bound() -> None:
    framing = ChunkFraming()
    framing.begin(read_bytes=1_000, head_bytes=900)
    framing.add_read(MAX_FRAMING_BYTES - 100)
    assert not framing.is_too_much
    framing.check()
    framing.add_read(1)
    assert framing.is_too_much
    with pytest.raises(UnreadableHeadError) as raised:
        framing.check()
    assert raised.value.status == 431


def test_data_and_what_its_chunks_cannot_do_without_are_free() -> None:
    framing = ChunkFraming()
    framing.begin(read_bytes=100, head_bytes=100)
    for _ in range(100_000):
        framing.add_read(len("1\r\nx\r\n"))
        framing.add_data(1)
    assert not framing.is_too_much


def test_data_pays_for_no_extension() -> None:
    framing = ChunkFraming()
    framing.begin(read_bytes=100, head_bytes=100)
    for _ in range(67):
        framing.add_read(1_000 + 4_000)
        framing.add_data(4_000)
    assert framing.is_too_much
