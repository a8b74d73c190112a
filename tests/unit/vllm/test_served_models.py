from __future__ import annotations

import pytest

from proxy.vllm.probe import Answer, Fault, NoAnswer
from proxy.vllm.served_models import ServedModel, longest_model_len, served_models

CARDS = (
    b'{"data": [{"id": "a", "max_model_len": 2048}, {"id": "b"}, {"id": 7}, "c",'
    b' {"id": "d", "max_model_len": true}, {"id": "e", "max_model_len": 4096}]}'
)


def test_every_card_with_a_name_is_a_model() -> None:
    assert served_models(Answer(200, CARDS)) == (
        ServedModel("a", 2048),
        ServedModel("b", None),
        ServedModel("d", None),
        ServedModel("e", 4096),
    )


@pytest.mark.parametrize("body", [None, b"", b"{", b"[1]", b'{"data": 1}', b"\xff", b"[" * 100_000])
def test_a_page_that_is_something_else_names_no_model(body: bytes | None) -> None:
    assert served_models(Answer(200, body)) == ()


def test_neither_does_a_refusal_nor_silence() -> None:
    assert served_models(Answer(401, CARDS)) == ()
    assert served_models(NoAnswer(Fault.UNCLEAR, "late")) == ()


def test_the_longest_of_those_that_tell() -> None:
    assert longest_model_len(served_models(Answer(200, CARDS))) == 4096
    assert longest_model_len([ServedModel("a", None)]) is None
    assert longest_model_len([]) is None
