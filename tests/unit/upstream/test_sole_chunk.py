from __future__ import annotations

import pytest

from proxy.upstream.sole_chunk import sole_chunk

SIZES = (1, 9, 15, 16, 17, 160, 255, 256, 4095, 4096, 65_535, 65_536, 1_048_575, 1_048_576)


@pytest.mark.parametrize("size", SIZES)
def test_a_whole_chunk_is_recognized_whatever_its_size(size: int) -> None:
    assert sole_chunk(b"%x\r\n%b\r\n" % (size, b"a" * size)) == b"a" * size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"0\r\n\r\n",  # the last one, which ends the body
        b"5\r\nabcd\r\n",
        b"3\r\nabcd\r\n",
        b"4\r\nabcd",
        b"4\r\nabcd\n\n",
        b"4\nabcd\r\n",
        b"04\r\nabcd\r\n",
        b"4;a=b\r\nabcd\r\n",
        b"C\r\nabcdefghijkl\r\n",  # allowed, but not what engines send: left to the parser
        b" 4\r\nabcd\r\n",
        b"+4\r\nabcd\r\n",
        b"4\r\nabcd\r\n4\r\nabcd\r\n",
        b"4\r\nabcd\r\n0\r\n\r\n",
        b"100\r\n" + b"a" * 255 + b"\r\n",
        b"ff\r\n" + b"a" * 256 + b"\r\n",
        b"\na\r\n",
        b"\n" + b"a" * 18 + b"\r\n",  # no chunk is 21 bytes long
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert sole_chunk(data) == b""


def test_a_chunk_may_hold_what_looks_like_its_framing() -> None:
    assert sole_chunk(b"6\r\n\r\n0\r\n\n\r\n") == b"\r\n0\r\n\n"
