"""Bodies: what was judged is what the engine sees, or more than it.

The engine's side is Python's json and pydantic (engine_reading). For a body that the engine accepts
the gateway counts at least as many seats, the same choice of stream and model, and the same output
tokens; for any body at all it answers with a measure or with UnreadableBodyError.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.openai_api.blocks import Blocks
from proxy.openai_api.measure import (
    MAX_SEATS,
    Measured,
    RequestShape,
    UnreadableBodyError,
    measure,
    measure_in_steps,
)
from proxy.openai_api.steps import all_at_once
from tests.fuzz import engine_reading
from tests.fuzz.engine_reading import Chat, Completion, Embedding, Rerank
from tests.fuzz.fuzzing import assert_is_one_line, cut, examples, mostly, places

JSON_TYPE = b"application/json"
MODELS = {
    RequestShape.COMPLETIONS: Completion,
    RequestShape.CHAT: Chat,
    RequestShape.EMBEDDINGS: Embedding,
    RequestShape.RERANK: Rerank,
}
SHAPES = st.sampled_from(list(RequestShape))
FIELDS = (
    "n", "best_of", "max_tokens", "max_completion_tokens", "use_beam_search", "stream", "model",
    "prompt", "messages", "input", "query", "documents", "prompt_embeds", "sampling_params",
    "questions", "background", "other",
)  # fmt: skip

# Numbers as they can be written: signs, points, powers, padding, in strings or bare.
_digits = st.sampled_from(["0", "1", "2", "7", "50", "050", "1_0", "9" * 19, "1" + "0" * 30, ""])
_pads = st.sampled_from(["", "", "0", "0" * 70, " ", " " * 70, "\\n", "\\u00a0", "_"])
_numbers = st.builds(
    "{}{}{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    _pads,
    _digits,
    st.sampled_from(["", ".0", ".", ".5", ".0" + "0" * 70, "e0", "e1", "E+2", "e-1", "e400"]),
    _pads,
    st.sampled_from(["", "x"]),
)
_constants = st.sampled_from(["NaN", "Infinity", "-Infinity", "true", "false", "null", "[]", "{}"])
_texts = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.sampled_from(
        ['"\\ud800"', '"\\udfff\\ud800x"', '"a\\\\\\""', '"NaN"', '"\\u0000"', '"x NaN,"', '"é"',
         '"true"', '"on"', '"T"', '"base64,"', '"' + "y" * 9000 + '"']
    ),
)  # fmt: skip
_scalars = st.one_of(_numbers, _numbers.map('"{}"'.format), _constants, _texts)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(_keys, st.sampled_from(["", " ", "\n"]), values)
    return st.lists(pairs.map(lambda p: f"{p[0]}:{p[1]}{p[2]}"), max_size=6).map(
        lambda entries: "{" + ",".join(entries) + "}"
    )


def _escaped(name: str) -> str:
    """As a key may be written too."""
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'


_keys = st.one_of(
    st.sampled_from(FIELDS).map(json.dumps),
    st.sampled_from(FIELDS).map(json.dumps),
    st.sampled_from(FIELDS).map(_escaped),
    _texts,
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(lambda items: "[" + ",".join(items) + "]"),
        _objects(inner),
    ),
    max_leaves=8,
)
_encodings = st.sampled_from(
    ["utf-8"] * 6
    + ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass")


# Numbers that the engine accepts, in all their forms.
_accepted = st.builds(
    lambda number, form: form.format(number),
    st.integers(1, 60),
    st.sampled_from(
        ["{}", "{}", '"{}"', "{}.0", "{}.0" + "0" * 70, '"' + "0" * 70 + '{}"', '" {} "', "{}e0"]
    ),
)
_number = st.one_of(_accepted, _accepted, _accepted, _scalars)

# Requests that the engine accepts but for one field or another.
_sound = st.fixed_dictionaries(
    {
        "messages": st.just("[]"),
        "prompt": st.one_of(_texts, st.lists(_texts, max_size=5).map(lambda x: f"[{','.join(x)}]")),
    },
    optional={
        "n": _number,
        "best_of": _number,
        "max_tokens": _number,
        "max_completion_tokens": _number,
        "stream": st.sampled_from(["true", "false", "1.0", '"on"', "null", "0.0"]),
        "model": st.sampled_from(['"m"', '"m NaN"', "null", '"\\u006d"']),
        "input": st.lists(st.lists(_numbers, max_size=3), max_size=3).map(
            lambda x: "[" + ",".join("[" + ",".join(y) + "]" for y in x) + "]"
        ),
        "query": st.just('"q"'),
        "documents": st.lists(_texts, max_size=5).map(lambda x: f"[{','.join(x)}]"),
    },
).map(lambda fields: "{" + ",".join(f'"{k}":{v}' for k, v in fields.items()) + "}")
json_bodies = st.builds(_encoded, st.one_of(_sound, _sound, _objects(_values), _values), _encodings)
_any_bytes = mostly(
    st.sampled_from(
        [b'{"n":', b'"prompt":', b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\\u", b"50",
         b"NaN", b"\xff", b"\xef\xbb\xbf", b"\0", b"\\ud800", b" ", b"null", b"1e9", b"-"]
    )
)  # fmt: skip
bodies = st.one_of(json_bodies, json_bodies, _any_bytes)
content_types = st.one_of(
    st.just(JSON_TYPE),
    mostly(
        st.sampled_from(
            [b"application/json", b"application", b"/", b"json", b"+json", b";", b" ", b"\t",
             b"\xa0", b"\x85", b"text/plain", b"charset=utf-16", b",", b"APPLICATION/JSON", b'"']
        ),
        4,
    ).filter(lambda value: not set(value) & set(b"\r\n\0")),
)  # fmt: skip


def measured(shape: RequestShape, content_type: bytes, body: bytes) -> Measured | None:
    """None for a body that the gateway refuses."""
    try:
        return measure(shape, content_type, body)
    except UnreadableBodyError as error:
        assert_is_one_line(error)
        return None


def nested(depth: int, inside: bytes = b"") -> bytes:
    return b'{"n":50,"x":' + b"[" * depth + inside + b"]" * depth + b"}"


@example(RequestShape.COMPLETIONS, b"", b'{"n": 50.' + b"0" * 5000 + b"}")
@example(RequestShape.COMPLETIONS, b"application/json\xa0", b'{"n": 50}')
@given(SHAPES, content_types, bodies)
@examples(250)
def test_any_body_is_measured_or_refused(
    shape: RequestShape, content_type: bytes, body: bytes
) -> None:
    found = measured(shape, content_type, body)
    if found is not None:
        assert 1 <= found.seats <= MAX_SEATS
        assert 1 <= found.prompts <= found.seats
        assert found.prompt_bytes >= 0
        assert found.max_tokens is None or found.max_tokens >= 0
        assert found.model is None or isinstance(found.model, str)


# Nothing in them that the engine refuses.
_served = st.fixed_dictionaries(
    {
        "prompt": st.sampled_from(['"a"', '["a", "b", "c"]', "[1, 2]", "[[1], [2, 3]]", "[]"]),
        "messages": st.just("[]"),
        "input": st.sampled_from(['"a"', '["a", "b"]', "[[1], [2], [3]]"]),
        "query": st.just('"q"'),
        "documents": st.sampled_from(["[]", '["a", "b"]']),
    },
    optional={
        **dict.fromkeys(("n", "best_of", "max_tokens", "max_completion_tokens"), _accepted),
        "stream": st.sampled_from(["true", "1.0", '"on"', "null"]),
        "model": st.sampled_from(['"m"', '"a/NaN"', '"\\u006d"']),
        "x": st.sampled_from(["NaN", "-Infinity", '"\\ud800"', "[{}]"]),
    },
).map(lambda fields: "{" + ",".join(f'"{k}":{v}' for k, v in fields.items()) + "}")
served_bodies = st.builds(_encoded, _served, _encodings)


@given(st.sampled_from(list(MODELS)), st.just(JSON_TYPE), served_bodies)
@examples(150)
def test_nothing_that_is_served_runs_more_than_was_counted(
    shape: RequestShape, content_type: bytes, body: bytes
) -> None:
    assert engine_reading.read(MODELS[shape], content_type, body) is not None
    assert_not_less_than_the_engine_runs(shape, content_type, body)


@given(st.sampled_from(list(MODELS)), content_types, json_bodies)
@examples(200)
def test_no_body_runs_more_than_was_counted(
    shape: RequestShape, content_type: bytes, body: bytes
) -> None:
    assert_not_less_than_the_engine_runs(shape, content_type, body)


def assert_not_less_than_the_engine_runs(
    shape: RequestShape, content_type: bytes, body: bytes
) -> None:
    runs = engine_reading.read(MODELS[shape], content_type, body)
    if runs is None:
        return
    found = measured(shape, content_type, body)
    assert found is not None, "refused what the engine accepts"
    expected = engine_reading.seats(runs)
    if expected <= MAX_SEATS:  # the engine refuses more
        assert found.seats >= expected
    if isinstance(runs, (Completion, Chat)):
        assert found.stream == bool(runs.stream)
        assert found.max_tokens == asked_for(runs)
    # A half of a surrogate pair is in no name, and no name is longer.
    if runs.model is not None and runs.model.isascii() and len(runs.model) <= 4400:
        assert found.model == runs.model


def asked_for(runs: Completion | Chat) -> int | None:
    given_tokens = [runs.max_tokens]
    if isinstance(runs, Chat):
        given_tokens.insert(0, runs.max_completion_tokens)
    return next((t for t in given_tokens if t is not None and 0 <= t < 2**31), None)


@given(SHAPES, json_bodies, st.integers(0, 40_000), places)
@examples(60)
def test_a_large_body_is_measured_in_steps_as_it_is_at_once(
    shape: RequestShape, body: bytes, stuffing: int, where: list[int]
) -> None:
    """Whatever stands in a long string, or looks as if it stood in one."""
    large = body.replace(b'"y', b'"' + b"base64,y\\n" + b"y" * stuffing + b"y", 2)
    blocks = Blocks(cut(large, where))
    in_steps = all_at_once(measure_in_steps(shape, JSON_TYPE, blocks))
    if in_steps is not None:
        assert in_steps == measured(shape, JSON_TYPE, large)


# What was found -------------------------------------------------------------------------------

PADDED = [
    b"50." + b"0" * 5000,
    b'"' + b"0" * 5000 + b'50"',
    b'"' + b" " * 5000 + b'50"',
    b'"50.' + b"0" * 5000 + b'"',
    b"0.5" + b"0" * 5000 + b"e2",
]


@pytest.mark.parametrize("number", PADDED, ids=lambda number: number[:4].decode().strip())
def test_a_number_counts_however_it_is_padded(number: bytes) -> None:
    """Fifty sequences for one seat: a number of more than 4,400 characters was not read."""
    body = b'{"prompt": "a", "n": %b, "max_tokens": %b}' % (number, number)
    assert_not_less_than_the_engine_runs(RequestShape.COMPLETIONS, JSON_TYPE, body)
    assert measure(RequestShape.COMPLETIONS, JSON_TYPE, body).seats == 50


@pytest.mark.parametrize("blank", [b"\xa0", b"\x85", b" ", b"\t"])
def test_a_type_counts_whatever_blanks_are_around_it(blank: bytes) -> None:
    """Python's strip() takes more for a blank in a text than in bytes."""
    content_type = blank + b"application/json" + blank + b";x=y"
    assert engine_reading.reads_json(content_type.decode("latin-1"))
    assert measure(RequestShape.COMPLETIONS, content_type, b'{"n": 50}').seats == 50


@pytest.mark.parametrize("name", ["n", "best_of", "stream", "max_tokens", "model"])
def test_a_padded_value_in_a_large_body_counts_as_in_a_small_one(name: str) -> None:
    """The inside of a long string is left out before a large body is decoded."""
    padded = {"model": "m" * 4000}.get(name, "\u2009" * 20_000 + "50")
    fields = {"prompt": "x" * 600_000, name: padded}
    for is_ascii in (True, False):
        body = json.dumps(fields, ensure_ascii=is_ascii).encode()
        small = measured(RequestShape.COMPLETIONS, JSON_TYPE, body)
        blocks = Blocks(body[at : at + 1000] for at in range(0, len(body), 1000))
        large = all_at_once(measure_in_steps(RequestShape.COMPLETIONS, JSON_TYPE, blocks))
        # None: a value of which a part is missing is read in the whole body after all.
        assert large == small or (large is None and name != "model")


def test_a_model_is_not_renamed_by_a_constant_elsewhere() -> None:
    body = b'{"model": "BAAI/Infinity-NaN", "prompt": "a", "x": [NaN,-Infinity, Infinity]}'
    assert_not_less_than_the_engine_runs(RequestShape.COMPLETIONS, JSON_TYPE, body)
    assert measure(RequestShape.COMPLETIONS, JSON_TYPE, body).model == "BAAI/Infinity-NaN"


_in_names = st.sampled_from(
    [
        *(
            "m",
            " ",
            ":",
            ",",
            "[",
            "NaN",
            "Infinity",
            "-Infinity",
            "-",
            "null",
            "\\\\",
            '\\"',
            "\\n",
        ),
        *(
            "\\ud83d\\ude00",
            "\\uD83D\\uDE00",
            "\\uc9c0",
            "\\uC9C0",
            "\\\\ud83d",
            "\\\\uc9c0",
            "ud",
            "é",
            "0",
        ),
    ]
)


@given(st.lists(_in_names, max_size=6).map("".join), st.sampled_from(["NaN", '"\\ud800"', "1"]))
@example(" NaN", "NaN")
@example("a:-Infinity, null", '"\\ud800"')
@examples(300)
def test_a_name_is_read_as_it_is_written_whatever_is_elsewhere(name: str, elsewhere: str) -> None:
    """What is put in the place of constants and surrogates stood in the name too."""
    for body in (
        f'{{"model": "{name}", "prompt": "a", "x": {elsewhere}}}',
        f'{{"x": ["null", {elsewhere}, {{"model": NaN}}], "model":"{name}", "prompt": "a"}}',
    ):
        judged = measure(RequestShape.COMPLETIONS, JSON_TYPE, body.encode()).model
        assert judged == json.loads(body)["model"]


def test_a_name_that_is_none_stays_none() -> None:
    for name in (b"NaN", b"[NaN, null]", b'"\\ud800 NaN"', b"null"):
        body = b'{"model": %b, "prompt": "a"}' % name
        assert measure(RequestShape.COMPLETIONS, JSON_TYPE, body).model is None
