"""Request bodies: the fields that are read, checked by the rules and in the words of vLLM.

vLLM reads bodies with pydantic, so pydantic it is here too: what it takes for a number or a
boolean, and what it says when it does not, comes out the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import AliasChoices, BaseModel, Field, RootModel, ValidationError

from proxy.simulator.errors import ApiError, unreadable

if TYPE_CHECKING:
    from proxy.simulator.exchange import Exchange

Prompts = list[int] | list[list[int]] | str | list[str]

_MAX_REPORTED = 10
_MAX_INPUT_CHARACTERS = 200
# Union branches and wrappers in an error's location are pydantic's business, not the client's.
_BRANCHES = frozenset({"str", "int", "float", "bool", "list", "dict", "nullable", "union"})


class StreamOptions(BaseModel):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class Sampling(BaseModel):
    """What chat and completion requests have in common."""

    model: str | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    ignore_eos: bool = False


class CompletionBody(Sampling):
    prompt: Prompts | None = None
    max_tokens: int | None = 16


class ChatBody(Sampling):
    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class ResponsesBody(BaseModel):
    model: str | None = None
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_p: float | None = None
    ignore_eos: bool = False


class MessagesBody(BaseModel):
    model: str
    messages: list[dict[str, Any]]
    max_tokens: int
    system: str | list[dict[str, Any]] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    temperature: float | None = None
    top_p: float | None = None


class CountTokensBody(BaseModel):
    model: str
    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]] | None = None


class EmbeddingBody(BaseModel):
    model: str | None = None
    input: Prompts
    encoding_format: str = "float"


class ScoreBody(BaseModel):
    model: str | None = None
    queries: str | list[str] = Field(validation_alias=AliasChoices("queries", "text_1"))
    documents: str | list[str] = Field(validation_alias=AliasChoices("documents", "text_2"))


class RerankBody(BaseModel):
    model: str | None = None
    query: str
    documents: list[str]
    top_n: int = 0


class TokenizeTextBody(BaseModel):
    model: str | None = None
    prompt: str
    return_token_strs: bool | None = False


class TokenizeChatBody(BaseModel):
    model: str | None = None
    messages: list[dict[str, Any]]
    return_token_strs: bool | None = False


class TokenizeBody(RootModel[TokenizeTextBody | TokenizeChatBody]):
    """Either of the two; `root` is which."""


class DetokenizeBody(BaseModel):
    model: str | None = None
    tokens: list[int]


Body = TypeVar("Body", bound=BaseModel)


def read_body(shape: type[Body], exchange: Exchange) -> Body:
    """Raises ApiError, as vLLM answers, for a wrong type, bad JSON or a bad field."""
    content_type = exchange.header(b"content-type") or ""
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/json":
        message = "Unsupported Media Type: Only 'application/json' is allowed"
        raise unreadable(f"1 validation error:\n  {message}", None)
    try:
        return shape.model_validate(decode_json(exchange.body), from_attributes=True)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False)) from None


def decode_json(raw: bytes) -> object:
    if not raw:
        raise _refused([{"type": "missing", "loc": (), "msg": "Field required", "input": None}])
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_again(raw)


def _decode_again(raw: bytes) -> object:
    """vLLM reads with the standard library, which takes NaN, and says where it stumbled."""
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        at, reason = error.pos, error.msg
    except UnicodeDecodeError as error:
        at, reason = error.start, error.reason
    fields = {"type": "json_invalid", "loc": (at,), "msg": "JSON decode error", "input": {}}
    raise _refused([{**fields, "ctx": {"error": reason}}])


def _refused(errors: list[Any]) -> ApiError:
    label = "error" if len(errors) == 1 else "errors"
    lines = [f"{len(errors)} validation {label}:"]
    lines += [f"  {_described(error)}" for error in errors[:_MAX_REPORTED]]
    if len(errors) > _MAX_REPORTED:
        lines.append(f"  ...and {len(errors) - _MAX_REPORTED} more {label}")
    return unreadable("\n".join(lines), _location(errors[0]["loc"]))


def _described(error: dict[str, Any]) -> str:
    fields = {
        "type": error["type"],
        "loc": _location(error["loc"]),
        "msg": error["msg"],
        "input": _input(error["input"]),
    }
    return str(fields | ({"ctx": error["ctx"]} if "ctx" in error else {}))


def _location(loc: tuple[int | str, ...]) -> str:
    named = [str(part) for part in loc if not _is_branch(str(part))]
    return ".".join(["body", *named])


def _is_branch(part: str) -> bool:
    return "[" in part or part in _BRANCHES or part.endswith("Body")


def _input(value: object) -> str:
    if isinstance(value, list | dict):
        return f"<{type(value).__name__} of {len(value)} items>"
    text = str(value)
    if len(text) > _MAX_INPUT_CHARACTERS:
        return text[:_MAX_INPUT_CHARACTERS] + "...[truncated]"
    return text
