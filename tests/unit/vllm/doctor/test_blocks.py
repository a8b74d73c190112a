"""A file's bytes, packed or not."""

import gzip
import io

import pytest

from proxy.vllm.doctor.blocks import BLOCK_BYTES, Blocks

TEXT = b"INFO a line of a log\n" * 100_000


def unpacked(packed: bytes) -> bytes:
    return b"".join(Blocks(io.BytesIO(packed)))


def test_plain_bytes_come_as_they_are() -> None:
    assert unpacked(TEXT) == TEXT


def test_gzip_is_told_by_its_first_bytes() -> None:
    assert unpacked(gzip.compress(TEXT)) == TEXT


def test_members_one_behind_the_other_are_one_log() -> None:
    assert unpacked(gzip.compress(TEXT) + gzip.compress(b"the end\n")) == TEXT + b"the end\n"


def test_no_block_is_larger_than_a_block_however_well_it_was_packed() -> None:
    blocks = list(Blocks(io.BytesIO(gzip.compress(bytes(8 * BLOCK_BYTES)))))
    assert max(map(len, blocks)) <= BLOCK_BYTES
    assert sum(map(len, blocks)) == 8 * BLOCK_BYTES


@pytest.mark.parametrize("kept", [0, 1, 2, 10, 500])
def test_a_gzip_cut_anywhere_gives_what_is_readable(kept: int) -> None:
    assert TEXT.startswith(unpacked(gzip.compress(TEXT)[:kept])) or kept < 3


def test_garbage_behind_a_member_ends_the_reading_quietly() -> None:
    assert unpacked(gzip.compress(TEXT) + b"garbage") == TEXT


@pytest.mark.parametrize(
    ("packed", "cut"),
    [
        (gzip.compress(TEXT), False),
        (gzip.compress(TEXT)[:-12], True),
        (gzip.compress(TEXT)[:-200], True),
        (gzip.compress(TEXT) + gzip.compress(TEXT)[:-200], True),
        (gzip.compress(TEXT) + b"garbage", False),
        (TEXT, False),
    ],
)
def test_a_packed_file_that_breaks_off_is_known_to(packed: bytes, cut: bool) -> None:
    blocks = Blocks(io.BytesIO(packed))
    assert list(blocks)
    assert blocks.cut is cut
