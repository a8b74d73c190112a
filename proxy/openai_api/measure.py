"""What admission needs to know about a request body: how many seats it takes, and a few facts.

    seats = width x sequences

`width` is how often each prompt is sampled: the larger of `n` and `best_of` (with
`use_beam_search` the beam is `n` wide). `sequences` is how many prompts or inputs there are. One
list of token ids is one prompt, and so are all content parts of a conversation; scoring takes one
sequence for each pair, reranking one for each document. Field names are those of vLLM 0.32.

A body is not judged here: what is wrong in it (a negative `n`, a missing prompt) the engine
refuses in its own words, and until then it takes one seat. Only what cannot be read as a JSON
object is refused, and there the engine would answer 400 as well.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from proxy.openai_api.abridged import abridged_fields
from proxy.openai_api.counting import (
    count_entries,
    count_items,
    count_prompts,
    integer,
    is_given,
    is_true,
    text,
)
from proxy.openai_api.inline_media import text_bytes, text_bytes_in_steps
from proxy.openai_api.request_fields import (
    NESTED_TOO_DEEPLY,
    RequestFields,
    UnreadableBodyError,
    nested_fields,
    read_fields,
)
from proxy.openai_api.token_ids import token_ids, token_ids_in_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Steps
    from proxy.openai_api.token_ids import TokenIds

__all__ = [
    "MAX_SEATS",
    "Measured",
    "RequestShape",
    "UnreadableBodyError",
    "is_json",
    "measure",
    "measure_in_steps",
]

# No engine runs so many; vLLM refuses n above 16,384 unless it is told otherwise.
MAX_SEATS = 1_000_000
_MOST_TOKENS = 2**31 - 1


class RequestShape(enum.Enum):
    """What a route's body looks like. OPAQUE is never parsed and takes one seat."""

    CHAT = "chat"
    CHAT_BATCH = "chat_batch"
    COHERE_CHAT = "cohere_chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    GENERATIVE_SCORING = "generative_scoring"
    SYSTEMONE = "systemone"
    EMBEDDINGS = "embeddings"
    EMBED_V2 = "embed_v2"
    POOLING = "pooling"
    CLASSIFY = "classify"
    SCORE = "score"
    RERANK = "rerank"
    INVOCATIONS = "invocations"
    OPAQUE = "opaque"


# What may not be abridged: a number in a string may be padded with blanks, as many as one likes.
_READ_AS_VALUES = (
    "model", "stream", "background", "n", "best_of", "max_tokens", "max_completion_tokens",
    "max_output_tokens", "sampling_params",
)  # fmt: skip


class Measured(msgspec.Struct, frozen=True):  # made in a fifth of a frozen dataclass's time
    """Facts about one request. `seats` is at least 1 and at most MAX_SEATS.

    `prompts` is how many prompts or inputs share the seats evenly. `prompt_bytes` is the JSON
    length of the fields that hold them, inline media at a flat rate: a basis for an estimate of
    their tokens. `prompt_token_ids` is the exact number, of all prompts together, where they came
    as token ids; `longest_prompt_token_ids` that of the longest, where the engine would neither
    shorten nor divide it. `max_tokens` is the output the request asks for, for each sequence: None
    when it does not say, 0 where nothing is generated. `background`: a response that the engine
    goes on making after its answer.
    """

    seats: int
    stream: bool = False
    prompt_bytes: int = 0
    max_tokens: int | None = None
    model: str | None = None
    background: bool = False
    prompts: int = 1
    prompt_token_ids: int | None = None
    longest_prompt_token_ids: int | None = None


_UNREAD = Measured(seats=1)


def measure(shape: RequestShape, content_type: bytes, body: bytes) -> Measured:
    """Measures a body; `content_type` is the header's value, b"" when there was none.

    Raises UnreadableBodyError when a JSON body is not one JSON object. A body of another type
    (multipart audio, a form) is not looked at. Takes, on one core (2026-12):

                    one text or image   list of short inputs
        64 KiB         0.02 ms              0.07 ms
         1 MiB         0.3 ms               1.0 ms
        16 MiB         5 ms                 27 ms
    """
    if shape is RequestShape.OPAQUE or not is_json(content_type):
        return _UNREAD
    fields = read_fields(body)
    rule = _RULES[shape]
    prompt_bytes = sum([text_bytes(getattr(fields, name)) for name in rule.prompt])
    ids = token_ids(getattr(fields, rule.ids)) if _is_of_ids_only(rule, fields) else None
    return _measured(shape, rule, fields, prompt_bytes, ids)


def measure_in_steps(
    shape: RequestShape, content_type: bytes, body: Blocks
) -> Steps[Measured | None]:
    """As measure(), for a large body. None when that would take one long step after all."""
    if shape is RequestShape.OPAQUE or not is_json(content_type):
        return _UNREAD
    if shape is RequestShape.SYSTEMONE:
        return None  # counts keys, which must not be abridged
    found = yield from abridged_fields(body)
    if found is None:
        return None
    abridged, fields = found
    if any(abridged.is_cut(getattr(fields, name)) for name in _READ_AS_VALUES):
        return None
    prompt_bytes, rule = 0, _RULES[shape]
    for name in rule.prompt:
        prompt = abridged.in_full(getattr(fields, name))
        prompt_bytes += yield from text_bytes_in_steps(prompt)
    ids = None
    if _is_of_ids_only(rule, fields):
        ids = yield from token_ids_in_steps(abridged.in_full(getattr(fields, rule.ids)))
    return _measured(shape, rule, fields, prompt_bytes, ids)


@lru_cache(maxsize=64)  # nearly all requests have one of a few
def is_json(content_type: bytes) -> bool:
    """Whether some version of the engine would read the body as JSON: a missing type counts."""
    # As text, like the engine: there, U+0085 and U+00A0 are blanks too.
    media_type = content_type.decode("latin-1").partition(";")[0].strip().lower()
    return media_type in ("application/json", "") or media_type.endswith("+json")


@dataclass(frozen=True, slots=True)
class _Rule:
    """How one shape is counted: which fields hold the prompt, how many sequences they make,
    whether each is sampled `n` times, and whether anything is generated. `output` are the fields
    that limit what is: the first that is given counts, and no other, for the engine would not read
    it. `ids` is the one of the prompt's fields that may hold token ids."""

    prompt: tuple[str, ...]
    sequences: Callable[[RequestFields], int] = lambda _fields: 1
    sampled: bool = False
    generates: bool = True
    output: tuple[str, ...] = ("max_tokens",)
    ids: str = ""


def _measured(
    shape: RequestShape, rule: _Rule, fields: RequestFields, prompt_bytes: int, ids: TokenIds | None
) -> Measured:
    """The stack may be too short for looking into a field although it was not for finding it."""
    try:
        return _counted(shape, rule, fields, prompt_bytes, ids)
    except RecursionError:
        raise UnreadableBodyError(NESTED_TOO_DEEPLY) from None


def _counted(
    shape: RequestShape, rule: _Rule, fields: RequestFields, prompt_bytes: int, ids: TokenIds | None
) -> Measured:
    sampling = fields
    if shape is RequestShape.GENERATE:
        sampling = nested_fields(fields.sampling_params)
    width = _width(sampling) if rule.sampled else 1
    prompts = max(rule.sequences(fields), 1)
    return Measured(
        seats=min(width * prompts, MAX_SEATS),
        stream=is_true(fields.stream),
        prompt_bytes=prompt_bytes,
        max_tokens=_max_tokens(shape, rule, sampling) if rule.generates else 0,
        model=text(fields.model),
        background=shape is RequestShape.RESPONSES and is_true(fields.background),
        prompts=min(prompts, MAX_SEATS),
        prompt_token_ids=None if ids is None else ids.total,
        longest_prompt_token_ids=_longest(ids, rule, fields, sampling),
    )


def _is_of_ids_only(rule: _Rule, fields: RequestFields) -> bool:
    """Whether no other field than that of the token ids holds any prompt."""
    if not rule.ids:
        return False
    return not any(is_given(getattr(fields, name)) for name in rule.prompt if name != rule.ids)


def _longest(
    ids: TokenIds | None, rule: _Rule, fields: RequestFields, sampling: RequestFields
) -> int | None:
    """None where the engine may take less than all of a prompt at once: a client can ask for it
    to be shortened, and an embedding can be made piece by piece."""
    if ids is None or not rule.generates:
        return None
    shortened = is_given(fields.truncate_prompt_tokens) or is_given(sampling.truncate_prompt_tokens)
    return None if shortened else ids.longest


def _width(sampling: RequestFields) -> int:
    """How often each prompt is sampled; what no engine would run counts as 1."""
    if not (sampling.n or sampling.best_of):
        return 1
    return max(_sane_width(sampling.n), _sane_width(sampling.best_of))


def _sane_width(raw: msgspec.Raw) -> int:
    if not raw:
        return 1
    width = integer(raw)
    return width if width is not None and 1 <= width <= MAX_SEATS else 1


def _max_tokens(shape: RequestShape, rule: _Rule, sampling: RequestFields) -> int | None:
    given = [
        tokens
        for name in rule.output
        if (tokens := integer(getattr(sampling, name))) is not None and 0 <= tokens <= _MOST_TOKENS
    ]
    if not given:
        return None
    # Which of its request types the engine takes it for, nobody knows before.
    return max(given) if shape is RequestShape.INVOCATIONS else given[0]


def _completion_prompts(fields: RequestFields) -> int:
    return count_prompts(fields.prompt) + count_prompts(fields.prompt_embeds)


def _pooling_inputs(fields: RequestFields) -> int:
    return max(count_prompts(fields.input), count_prompts(fields.messages))


def _embed_v2_inputs(fields: RequestFields) -> int:
    return max(map(count_items, (fields.texts, fields.images, fields.inputs)))


def _pairs(fields: RequestFields) -> int:
    """A query meets every document, or n queries meet n documents; older names are synonyms."""
    sides = (
        fields.queries, fields.documents, fields.items,
        fields.data_1, fields.data_2, fields.text_1, fields.text_2,
    )  # fmt: skip
    return max(map(count_items, sides))


def _documents(fields: RequestFields) -> int:
    return count_items(fields.documents)


def _anything(fields: RequestFields) -> int:
    """The engine tries its request types in turn; whichever fits runs no more than the most."""
    return max(_completion_prompts(fields), _pooling_inputs(fields), _pairs(fields))


_QUERY_AND_DOCUMENTS = (
    "query", "queries", "documents", "items", "data_1", "data_2", "text_1", "text_2",
)  # fmt: skip

_OF_CHAT = ("max_completion_tokens", "max_tokens")

_RULES: Mapping[RequestShape, _Rule] = {
    RequestShape.CHAT: _Rule(("messages", "tools"), sampled=True, output=_OF_CHAT),
    RequestShape.CHAT_BATCH: _Rule(
        ("messages", "tools"), lambda f: count_prompts(f.messages), sampled=True, output=_OF_CHAT
    ),
    RequestShape.COHERE_CHAT: _Rule(("messages", "tools"), sampled=True),
    RequestShape.COMPLETIONS: _Rule(
        ("prompt", "prompt_embeds"), _completion_prompts, sampled=True, ids="prompt"
    ),
    RequestShape.RESPONSES: _Rule(
        ("input", "instructions", "tools"), output=("max_output_tokens",)
    ),
    RequestShape.MESSAGES: _Rule(("messages", "system", "tools")),
    RequestShape.GENERATE: _Rule(("token_ids",), sampled=True, ids="token_ids"),
    RequestShape.GENERATIVE_SCORING: _Rule(
        ("query", "items"), lambda f: count_items(f.items), generates=False
    ),
    RequestShape.SYSTEMONE: _Rule(("state", "questions"), lambda f: count_entries(f.questions)),
    RequestShape.EMBEDDINGS: _Rule(
        ("input", "messages"), _pooling_inputs, generates=False, ids="input"
    ),
    RequestShape.EMBED_V2: _Rule(("texts", "images", "inputs"), _embed_v2_inputs, generates=False),
    RequestShape.POOLING: _Rule(
        ("input", "messages"), _pooling_inputs, generates=False, ids="input"
    ),
    RequestShape.CLASSIFY: _Rule(
        ("input", "messages"), _pooling_inputs, generates=False, ids="input"
    ),
    RequestShape.SCORE: _Rule(_QUERY_AND_DOCUMENTS, _pairs, generates=False),
    RequestShape.RERANK: _Rule(_QUERY_AND_DOCUMENTS, _documents, generates=False),
    RequestShape.INVOCATIONS: _Rule(
        ("messages", "prompt", "prompt_embeds", "input", *_QUERY_AND_DOCUMENTS),
        _anything,
        sampled=True,
        output=_OF_CHAT,
    ),
}
