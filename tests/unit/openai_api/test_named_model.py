from __future__ import annotations

import pytest

from proxy.openai_api.blocks import Blocks
from proxy.openai_api.named_model import Named, model_in_body, model_in_path, model_in_steps
from proxy.openai_api.steps import all_at_once


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"prompt": "x", "model": "org/name"}', "org/name"),
        (bytearray(b'{"model": "a", "n": NaN}'), "a"),
        ('{"model": "\u00e4"}'.encode("utf-16"), "\u00e4"),
        (b'{"model": "a", "model": "b"}', "b"),
        (b'{"model": 7}', None),
        (b'{"model": null}', None),
        (b"{}", None),
        (b"", None),
        (b"[]", None),
        (b"--boundary\r\n", None),
        (b"\xff\xfe\x00", None),
        (b"[" * 100_000, None),
    ],
)
def test_the_model_of_a_body_is_what_the_engine_reads(
    body: bytes | bytearray, model: str | None
) -> None:
    assert model_in_body(body) == model


LONG = b"long " * 10_000


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"prompt": "%b", "model": "a"}' % LONG, Named("a")),
        (b'{"model": "a", "prompt": "%b", "model": 7}' % LONG, Named(None)),
        (b'{"prompt": "%b"}' % LONG, Named(None)),
        (b'{"prompt": "%b", "n": NaN, "model": "a"}' % LONG, None),
        (b'{"model": "%b"}' % LONG, None),
        (b'{"prompt": "%b"' % LONG, None),
        (b'{"model": "a"%b}' % (b',"n":1' * 200_000), None),
    ],
    ids=["last", "no string", "none", "no JSON", "too long", "broken", "too much"],
)
def test_in_steps_it_is_the_same_or_not_known(body: bytes, found: Named | None) -> None:
    assert all_at_once(model_in_steps(Blocks([body]))) == found


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (b"/v1/models/tiny", "tiny"),
        (b"/v1/models/org/name", "org/name"),
        (b"/v1/models/org%2Fname", "org/name"),
        (b"/v1/models/%C3%A4", "\u00e4"),
        (b"/v1/models/", None),
        (b"/v1/models", None),
        (b"/tokenize", None),
    ],
)
def test_the_model_of_a_path_is_decoded_as_the_engine_decodes_it(
    path: bytes, model: str | None
) -> None:
    assert model_in_path(path, b"/v1/models/") == model
