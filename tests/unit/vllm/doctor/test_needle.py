"""A word that is found by its rarest byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.doctor.needle import Needle

XID = Needle(b"NVRM: Xid", rare=1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"V",
        b"NVRM: Xi",
        b"VRM: Xid",
        b"a NVRM: Xid (PCI)\nNVRM: Xid",
        b"V" * 5000 + b"NVRM: Xid",
    ],
)
def test_it_is_found_where_the_word_is_and_nowhere_else(data: bytes) -> None:
    assert XID.is_in(data) == (b"NVRM: Xid" in data)


@given(st.lists(st.sampled_from([b"V", b"NV", b"NVRM: Xid", b"x" * 600]), max_size=60))
def test_every_place_is_found_in_order_however_full_of_its_byte_the_text_is(
    parts: list[bytes],
) -> None:
    data = b"".join(parts)
    expected = [at for at in range(len(data)) if data.startswith(XID.word, at)]
    assert list(XID.places(data)) == expected
