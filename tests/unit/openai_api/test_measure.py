"""How many seats a request takes: field names and meanings of vLLM 0.32's request classes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from proxy.openai_api.abridged import MOST_AT_ONCE_BYTES
from proxy.openai_api.blocks import Blocks
from proxy.openai_api.measure import (
    MAX_SEATS,
    Measured,
    RequestShape,
    measure,
    measure_in_steps,
)
from proxy.openai_api.request_fields import RequestFields, UnreadableBodyError
from proxy.openai_api.steps import all_at_once

JSON_TYPE = b"application/json"
MESSAGES = [{"role": "user", "content": "hello"}]
PARTS = [{"role": "user", "content": [{"type": "text"}, {"type": "image_url"}, {"type": "text"}]}]


def measured(shape: RequestShape, **fields: object) -> Measured:
    return measure(shape, JSON_TYPE, json.dumps(fields).encode())


def seats(shape: RequestShape, **fields: object) -> int:
    return measured(shape, **fields).seats


# Width -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({}, 1),
        ({"n": 4}, 4),
        ({"n": None}, 1),
        ({"best_of": 8}, 8),
        ({"n": 2, "best_of": 8}, 8),
        ({"n": 8, "best_of": 2}, 8),
        ({"n": 5, "use_beam_search": True}, 5),
        ({"n": "4"}, 4),
        ({"n": 4.0}, 4),
        ({"n": True}, 1),
    ],
)
@pytest.mark.parametrize("shape", [RequestShape.CHAT, RequestShape.COMPLETIONS])
def test_every_choice_takes_a_seat(
    shape: RequestShape, fields: dict[str, object], width: int
) -> None:
    assert seats(shape, messages=MESSAGES, prompt="a", **fields) == width


@pytest.mark.parametrize("n", [0, -1, 1e9, 2**70, 1e308, 4.5, "four", [], {}, [4], MAX_SEATS + 1])
def test_what_the_engine_will_refuse_waits_for_that_in_one_seat(n: object) -> None:
    assert seats(RequestShape.CHAT, messages=MESSAGES, n=n) == 1


@pytest.mark.parametrize(
    "shape",
    [RequestShape.RESPONSES, RequestShape.MESSAGES, RequestShape.EMBEDDINGS, RequestShape.RERANK],
)
def test_n_means_nothing_where_the_engine_samples_once(shape: RequestShape) -> None:
    assert seats(shape, messages=MESSAGES, input="a", n=7) == 1


# Sequences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "sequences"),
    [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1, 2], [3], [4]], 3), ([], 1), (None, 1)],
)
def test_every_prompt_takes_n_seats(prompt: object, sequences: int) -> None:
    assert seats(RequestShape.COMPLETIONS, prompt=prompt, n=2) == 2 * sequences


def test_prompts_given_as_embeddings_are_prompts_too() -> None:
    assert seats(RequestShape.COMPLETIONS, prompt_embeds=["x", "y"]) == 2
    assert seats(RequestShape.COMPLETIONS, prompt="a", prompt_embeds=["x", "y"]) == 3
    assert seats(RequestShape.COMPLETIONS, prompt="a", prompt_embeds=None) == 1


def test_content_parts_are_one_prompt() -> None:
    assert seats(RequestShape.CHAT, messages=PARTS) == 1
    assert seats(RequestShape.CHAT_BATCH, messages=PARTS) == 1


def test_a_batch_takes_a_seat_for_each_conversation() -> None:
    assert seats(RequestShape.CHAT_BATCH, messages=[MESSAGES, MESSAGES, PARTS]) == 3


@pytest.mark.parametrize(
    "shape", [RequestShape.EMBEDDINGS, RequestShape.POOLING, RequestShape.CLASSIFY]
)
def test_every_pooling_input_takes_a_seat(shape: RequestShape) -> None:
    assert seats(shape, input=["a"] * 300) == 300
    assert seats(shape, input=[[1, 2], [3]]) == 2
    assert seats(shape, input=[1, 2, 3]) == 1
    assert seats(shape, messages=MESSAGES) == 1
    assert seats(shape, messages=[MESSAGES, MESSAGES]) == 2
    assert seats(shape, input=[MESSAGES, MESSAGES]) == 2


@pytest.mark.parametrize("field", ["texts", "images", "inputs"])
def test_coheres_embed_counts_its_own_inputs(field: str) -> None:
    assert seats(RequestShape.EMBED_V2, **{field: [{"content": []}] * 4}) == 4


@pytest.mark.parametrize(
    ("queries", "documents"),
    [("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2")],
)
def test_a_score_takes_a_seat_for_each_pair(queries: str, documents: str) -> None:
    assert seats(RequestShape.SCORE, **{queries: "q", documents: ["a", "b", "c"]}) == 3
    assert seats(RequestShape.SCORE, **{queries: ["p", "q"], documents: ["a", "b"]}) == 2
    assert seats(RequestShape.SCORE, **{queries: "q", documents: "a"}) == 1


def test_reranking_takes_a_seat_for_each_document() -> None:
    assert seats(RequestShape.RERANK, query="q", documents=["a"] * 40) == 40
    assert seats(RequestShape.RERANK, query="q", documents={"content": [1, 2]}) == 1


def test_generative_scoring_takes_a_seat_for_each_item() -> None:
    assert seats(RequestShape.GENERATIVE_SCORING, query="q", items=[[1], [2]]) == 2


def test_a_structured_decision_takes_a_seat_for_each_question() -> None:
    assert seats(RequestShape.SYSTEMONE, state="s", questions={"a": {}, "b": {}, "c": {}}) == 3


def test_token_generation_is_sampled_as_its_nested_parameters_say() -> None:
    asked = measured(
        RequestShape.GENERATE, token_ids=[1, 2], sampling_params={"n": 3, "max_tokens": 7}, n=99
    )
    assert (asked.seats, asked.max_tokens) == (3, 7)
    assert seats(RequestShape.GENERATE, token_ids=[1], sampling_params=[3]) == 1


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"messages": MESSAGES, "n": 4}, 4),
        ({"prompt": ["a", "b"], "n": 4}, 8),
        ({"input": ["a", "b", "c"]}, 3),
        ({"text_1": "q", "text_2": ["a", "b"]}, 2),
        ({"query": "q", "documents": ["a", "b"]}, 2),
    ],
)
def test_a_dispatching_route_is_counted_as_whatever_it_may_become(
    fields: dict[str, object], width: int
) -> None:
    assert seats(RequestShape.INVOCATIONS, **fields) == width


def test_seats_have_an_upper_end() -> None:
    assert seats(RequestShape.COMPLETIONS, prompt=["a"] * 2000, n=MAX_SEATS) == MAX_SEATS


# The other facts ---------------------------------------------------------------------------------


def test_the_facts_for_later_estimates() -> None:
    asked = measured(
        RequestShape.CHAT, model="tiny", stream=True, messages=MESSAGES, max_tokens=100
    )
    assert asked == Measured(
        seats=1,
        stream=True,
        prompt_bytes=len(json.dumps(MESSAGES)),
        max_tokens=100,
        model="tiny",
    )


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (RequestShape.CHAT, ("messages", "tools")),
        (RequestShape.RESPONSES, ("input", "instructions", "tools")),
        (RequestShape.MESSAGES, ("messages", "system", "tools")),
        (RequestShape.COMPLETIONS, ("prompt",)),
    ],
)
def test_all_that_the_engine_makes_the_prompt_of_is_in_its_length(
    shape: RequestShape, fields: tuple[str, ...]
) -> None:
    given = dict.fromkeys(fields, "x" * 98)
    assert measured(shape, **given, user="somebody").prompt_bytes == 100 * len(fields)


def test_a_picture_does_not_count_by_its_bytes() -> None:
    url = "data:image/png;base64," + "A" * 1_000_000
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    assert 4096 <= measured(RequestShape.CHAT, messages=[message]).prompt_bytes < 4400


@pytest.mark.parametrize(
    ("prompt", "prompts", "ids", "longest"),
    [
        ([1, 2, 3], 1, 3, 3),
        ([[1, 2], [3]], 2, 3, 2),
        ("a", 1, None, None),
        (["a", "b"], 2, None, None),
    ],
)
def test_token_ids_are_counted(
    prompt: object, prompts: int, ids: int | None, longest: int | None
) -> None:
    seen = measured(RequestShape.COMPLETIONS, prompt=prompt, n=2)
    assert (seen.seats, seen.prompts) == (2 * prompts, prompts)
    assert (seen.prompt_token_ids, seen.longest_prompt_token_ids) == (ids, longest)


def test_token_ids_beside_another_prompt_are_not_all() -> None:
    seen = measured(RequestShape.COMPLETIONS, prompt=[1, 2], prompt_embeds=["x"])
    assert seen.prompt_token_ids is None


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (RequestShape.COMPLETIONS, {"prompt": [1, 2], "truncate_prompt_tokens": 1}),
        (RequestShape.GENERATE, {"token_ids": [1, 2], "truncate_prompt_tokens": -1}),
        (
            RequestShape.GENERATE,
            {"token_ids": [1, 2], "sampling_params": {"truncate_prompt_tokens": 1}},
        ),
        (RequestShape.EMBEDDINGS, {"input": [1, 2]}),
    ],
)
def test_a_prompt_that_may_be_shortened_or_divided_is_never_too_long(
    shape: RequestShape, fields: dict[str, object]
) -> None:
    seen = measured(shape, **fields)
    assert seen.prompt_token_ids == 2
    assert seen.longest_prompt_token_ids is None


def test_generated_from_token_ids() -> None:
    seen = measured(RequestShape.GENERATE, token_ids=[1, 2, 3], sampling_params={"max_tokens": 7})
    assert (seen.longest_prompt_token_ids, seen.max_tokens) == (3, 7)


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (RequestShape.EMBEDDINGS, {"input": "a"}),
        (RequestShape.RERANK, {"query": "a", "documents": ["b"]}),
        (RequestShape.CLASSIFY, {"input": "a", "max_tokens": 9}),
    ],
)
def test_what_generates_nothing_has_no_output(
    shape: RequestShape, fields: dict[str, object]
) -> None:
    assert measured(shape, **fields).max_tokens == 0


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_completion_tokens": 5, "max_tokens": 9}, 5),
        ({"max_completion_tokens": None, "max_tokens": "9"}, 9),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": -1}, None),
        ({"max_tokens": 2**40}, None),
        ({}, None),
    ],
)
def test_the_newer_name_for_the_output_length_goes_first(
    fields: dict[str, object], max_tokens: int | None
) -> None:
    assert measured(RequestShape.CHAT, messages=MESSAGES, **fields).max_tokens == max_tokens


@pytest.mark.parametrize(
    ("shape", "fields", "max_tokens"),
    [
        (RequestShape.RESPONSES, {"max_output_tokens": 5, "max_tokens": 0}, 5),
        (RequestShape.CHAT, {"max_output_tokens": 0, "max_tokens": 5}, 5),
        (RequestShape.COHERE_CHAT, {"max_completion_tokens": 0, "max_tokens": 5}, 5),
        (RequestShape.COMPLETIONS, {"max_completion_tokens": 0, "max_tokens": 5}, 5),
        (RequestShape.MESSAGES, {"max_completion_tokens": 0, "max_tokens": 5}, 5),
        (RequestShape.COMPLETIONS, {"max_completion_tokens": 0}, None),
        (RequestShape.INVOCATIONS, {"max_completion_tokens": 0, "max_tokens": 5}, 5),
    ],
)
def test_a_length_that_the_engine_would_not_read_counts_for_nothing(
    shape: RequestShape, fields: dict[str, object], max_tokens: int | None
) -> None:
    """Or a client could ask for as much as it liked, and count as asking for none."""
    assert measured(shape, **fields).max_tokens == max_tokens


# Content types -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON; charset=utf-8",
        b" application/json ",
        b"",
        b"application/vnd.api+json",
    ],
)
def test_whatever_an_engine_may_read_as_json_is_counted(content_type: bytes) -> None:
    assert measure(RequestShape.CHAT, content_type, b'{"n": 4}').seats == 4


@pytest.mark.parametrize(
    "content_type", [b"multipart/form-data; boundary=x", b"text/plain", b"application/octet-stream"]
)
def test_a_body_of_another_type_is_not_looked_at(content_type: bytes) -> None:
    assert measure(RequestShape.CHAT, content_type, b"--x\r\nanything \xff") == Measured(seats=1)


def test_an_opaque_body_is_not_looked_at_even_if_it_says_it_is_json() -> None:
    assert measure(RequestShape.OPAQUE, JSON_TYPE, b"{not json") == Measured(seats=1)


# Nesting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        (RequestShape.COMPLETIONS, b"prompt"),
        (RequestShape.CHAT_BATCH, b"messages"),
        (RequestShape.EMBEDDINGS, b"input"),
        (RequestShape.EMBED_V2, b"texts"),
        (RequestShape.RERANK, b"documents"),
        (RequestShape.SCORE, b"queries"),
        (RequestShape.SYSTEMONE, b"questions"),
        (RequestShape.GENERATE, b"sampling_params"),
        (RequestShape.INVOCATIONS, b"documents"),
    ],
)
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"n":', b"}")])
def test_at_every_depth_a_body_is_measured_or_nested_too_deeply(
    shape: RequestShape, field: bytes, opening: bytes, closing: bytes
) -> None:
    """Where the interpreter bounds calls, there is a depth at which a field can be found but not
    looked into. A thousand less what the test itself takes, it was; nobody was told 400 there."""
    said = set()
    for depth in (*range(800, 1010), 1_000_000):
        body = b'{"%b":%b1%b}' % (field, opening * depth, closing * depth)
        try:
            said.add(str(measure(shape, JSON_TYPE, body).seats))
        except UnreadableBodyError as error:
            said.add(str(error))
    assert said == {"1", "the request body is nested too deeply"}


# Anything ----------------------------------------------------------------------------------------

READABLE = [shape for shape in RequestShape if shape is not RequestShape.OPAQUE]
FIELDS = [
    "n", "best_of", "stream", "model", "prompt", "prompt_embeds", "messages", "input", "texts",
    "questions", "documents", "items", "data_1", "sampling_params", "max_tokens", "other",
]  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.integers()
    | st.floats()
    | st.text(alphabet=st.characters(codec=None))
    | st.integers(-3, 40).map(str),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(shape=st.sampled_from(READABLE), body=st.binary())
def test_arbitrary_bytes_are_measured_or_unreadable(shape: RequestShape, body: bytes) -> None:
    try:
        assert measure(shape, JSON_TYPE, body).seats >= 1
    except UnreadableBodyError:
        return


@given(
    shape=st.sampled_from(READABLE),
    fields=st.dictionaries(st.sampled_from(FIELDS), VALUES),
)
def test_any_object_takes_at_least_one_seat(shape: RequestShape, fields: dict[str, Any]) -> None:
    assert 1 <= seats(shape, **fields) <= MAX_SEATS


_INTEGER = TypeAdapter(int)


def engine_integer(value: object) -> int | None:
    """The integer pydantic's lax mode makes of a value, None when it refuses."""
    try:
        return _INTEGER.validate_python(value)
    except ValidationError:
        return None


def engine_prompts(value: object) -> int:
    """vLLM's prompt_to_seq and conversation_to_seq, over what json.loads gave."""
    if value is None:
        return 0
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        return len(value)
    return 1


def engine_sequences(fields: dict[str, Any]) -> int | None:
    """What the engine would run for a completion; None when it refuses it: for its sampling, or
    because a number stands where prompts should."""
    if any(isinstance(fields.get(name), float) for name in ("prompt", "prompt_embeds")):
        return None
    widths = [engine_integer(fields[name]) for name in ("n", "best_of") if fields.get(name)]
    if any(width is None or not 1 <= width <= MAX_SEATS for width in widths):
        return None
    prompts = engine_prompts(fields.get("prompt")) + engine_prompts(fields.get("prompt_embeds"))
    return min(max(widths, default=1) * max(prompts, 1), MAX_SEATS)


@given(
    fields=st.dictionaries(st.sampled_from(["n", "best_of", "prompt", "prompt_embeds"]), VALUES),
    ascii_only=st.booleans(),
)
@example(fields={"prompt": [], "prompt_embeds": float("inf")}, ascii_only=False)
def test_counts_agree_with_a_slow_reading_by_json_and_pydantic(
    fields: dict[str, Any], ascii_only: bool
) -> None:
    body = json.dumps(fields, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    expected = engine_sequences(json.loads(body))
    if expected is not None:
        assert measure(RequestShape.COMPLETIONS, JSON_TYPE, body).seats == expected


@given(value=st.integers(1, 5000).map(str) | st.text("0123456789+-_. eE", max_size=12))
def test_no_spelling_of_an_integer_hides_choices(value: str) -> None:
    wanted = engine_integer(value)
    if wanted is not None and 1 <= wanted <= MAX_SEATS:
        assert seats(RequestShape.CHAT, n=value) == wanted


def test_only_a_response_can_be_made_in_the_background() -> None:
    body = b'{"input": "x", "background": true}'
    assert measure(RequestShape.RESPONSES, b"application/json", body).background
    assert not measure(RequestShape.CHAT, b"application/json", body).background
    assert not measure(RequestShape.RESPONSES, b"application/json", b'{"input": "x"}').background


# In steps ----------------------------------------------------------------------------------------

PROSE = 'He said: "Go on."\n'
PICTURE = "iVBORw0KGgo+/"
_TEXTS = st.builds(
    lambda before, piece, times: before + piece * times,
    st.text(max_size=3) | st.sampled_from(["data:image/png;base64,", "base64, "]),
    st.sampled_from([PROSE, PICTURE, "a", "\u4e2d", "\U0001f600", "1,2,", "[{", "\\"]),
    st.integers(0, 30_000),
)
_NUMBERS = st.integers(-(2**70), 2**70) | st.floats()
_LONG_LISTS = st.sampled_from(
    [
        *([1] * 9000, [""] * 9000, [[]] * 9000, [[1, 2], [3]] * 4000, ['a, "[1, 2],', "b"] * 2000),
        *([{"a": 1, "b": 2}] * 2000, [1, "a", [2, {}], None] * 2000, [[1] * 9000, [2] * 9000]),
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS | _LONG_LISTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_TEXTS | st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_NAMES = st.sampled_from(RequestFields.__struct_fields__) | st.just("another")


@st.composite
def large_bodies(draw: st.DrawFn) -> bytes:
    """JSON with long strings in it, keys that are repeated, and sometimes something wrong."""
    ascii_only = draw(st.booleans())

    def said(value: object) -> bytes:
        return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    pairs = draw(st.lists(st.tuples(_NAMES | _TEXTS, _VALUES), min_size=1, max_size=4))
    body = b"{" + b",".join(said(name) + b":" + said(value) for name, value in pairs) + b"}"
    at = draw(st.integers(0, len(body)))
    wrong = st.sampled_from([b"\x00", b"\xff", b'"', b"\\", b"\n", b"}", b" "])
    return body[:at] + draw(st.just(b"") | wrong) + body[at:]


def whole(shape: RequestShape, body: bytes) -> Measured | None:
    try:
        return measure(shape, JSON_TYPE, body)
    except UnreadableBodyError:
        return None


def in_steps(shape: RequestShape, body: bytes, block: int = 100_000) -> Measured | None:
    blocks = Blocks(body[at : at + block] for at in range(0, len(body), block))
    return all_at_once(measure_in_steps(shape, JSON_TYPE, blocks))


@given(st.sampled_from(RequestShape), large_bodies(), st.integers(5_000, 300_000))
def test_what_is_measured_in_steps_is_what_is_measured_at_once(
    shape: RequestShape, body: bytes, block: int
) -> None:
    measured = in_steps(shape, body, block)
    assert measured is None or measured == whole(shape, body)


@pytest.mark.parametrize("text", [PROSE * 20_000, PICTURE * 50_000, "a" * 900_000])
@pytest.mark.parametrize("shape", [RequestShape.CHAT, RequestShape.COMPLETIONS])
def test_a_body_that_is_one_long_text_is_measured_in_many_steps(
    shape: RequestShape, text: str
) -> None:
    fields = {"messages": [{"role": "user", "content": text}], "prompt": text, "n": 3}
    body = json.dumps(fields).encode()
    assert in_steps(shape, body) == measure(shape, JSON_TYPE, body)
    assert len(list(measure_in_steps(shape, JSON_TYPE, Blocks([body])))) > 10


def test_many_pictures_are_measured_in_steps_and_each_counts_as_one() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PICTURE * 10_000}}
    body = json.dumps({"messages": [{"role": "user", "content": [part] * 50}]}).encode()
    measured = in_steps(RequestShape.CHAT, body)
    assert measured is not None
    assert measured == measure(RequestShape.CHAT, JSON_TYPE, body)
    assert measured.prompt_bytes < 300_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":{' + b'"a":1,' * (MOST_AT_ONCE_BYTES // 6) + b'"b":1}}',
        b'{"input":"' + b"\\\\" * MOST_AT_ONCE_BYTES + b'"}',
        b'{"messages":"' + b"x" * 300_000 + b'","n":NaN}',
        b'{"messages":"' + b"x" * 300_000,
        b'[ "' + b"x" * 300_000 + b'"]',
    ],
)
def test_what_steps_will_not_do_for_is_left_to_a_reading_of_the_whole(body: bytes) -> None:
    assert in_steps(RequestShape.CHAT, body) is None


def test_token_ids_are_counted_in_steps_too() -> None:
    body = json.dumps({"prompt": [list(range(30_000)), list(range(40_000))]}).encode()
    measured = in_steps(RequestShape.COMPLETIONS, body)
    assert measured is not None
    assert measured.prompt_token_ids == 70_000


def test_names_that_are_counted_are_never_abridged() -> None:
    name = "x" * 60_000
    body = f'{{"questions":{{"{name}":1,"{name}":2}}}}'.encode()
    assert in_steps(RequestShape.SYSTEMONE, body) is None
    assert seats(RequestShape.SYSTEMONE, questions={name: 1}) == 1


def test_what_is_never_parsed_takes_no_steps() -> None:
    blocks = Blocks([b"x" * 300_000])
    assert all_at_once(measure_in_steps(RequestShape.OPAQUE, JSON_TYPE, blocks)) == Measured(1)
    assert all_at_once(measure_in_steps(RequestShape.CHAT, b"audio/wav", blocks)) == Measured(1)
