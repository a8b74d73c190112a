from __future__ import annotations

import pytest

from proxy.openai_api.blocks import Blocks
from proxy.openai_api.request_fields import UnreadableBodyError
from proxy.openai_api.steps import all_at_once
from proxy.openai_api.weight import MOST_MARKS, refuse_what_is_too_much


def blocks(mark: bytes, times: int) -> Blocks:
    return Blocks([(mark * 100_000) for _ in range(times // 100_000)] + [mark * (times % 100_000)])


@pytest.mark.parametrize("mark", [b'"', b"[", b"{"])
def test_a_body_has_a_bound_on_what_makes_objects(mark: bytes) -> None:
    all_at_once(refuse_what_is_too_much(blocks(mark, MOST_MARKS)))
    with pytest.raises(UnreadableBodyError, match="more than 2,000,000 quotes and brackets"):
        all_at_once(refuse_what_is_too_much(blocks(mark, MOST_MARKS + 1)))


def test_a_long_text_is_no_such_thing() -> None:
    all_at_once(refuse_what_is_too_much(blocks(b"It is said, and said. ", MOST_MARKS + 1)))
