"""How vLLM reads a request's body, told by the libraries that it reads with.

The body goes through FastAPI's rule for content types, Python's json and pydantic, as it does in
vLLM 0.32; the models here have only the fields that say how much is going to run. A count is what
the engine would run, or None for a body that it refuses.
"""

from __future__ import annotations

import email.message
import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Read = TypeVar("Read", bound=BaseModel)


class _Sampled(BaseModel):
    model: str | None = None
    stream: bool | None = False
    n: int | None = 1
    best_of: int | None = None
    max_tokens: int | None = None
    use_beam_search: bool = False


class Completion(_Sampled):
    prompt: list[int] | list[list[int]] | str | list[str] | None = None

    @property
    def sequences(self) -> int:
        if isinstance(self.prompt, list) and self.prompt and not isinstance(self.prompt[0], int):
            return len(self.prompt)
        return 1


class Chat(_Sampled):
    messages: list[Any]
    max_completion_tokens: int | None = None

    sequences: int = 1


class Embedding(BaseModel):
    model: str | None = None
    input: list[int] | list[list[int]] | str | list[str]

    @property
    def sequences(self) -> int:
        if isinstance(self.input, list) and self.input and not isinstance(self.input[0], int):
            return len(self.input)
        return 1


class Rerank(BaseModel):
    model: str | None = None
    query: str
    documents: list[str]

    @property
    def sequences(self) -> int:
        return max(len(self.documents), 1)


def reads_json(content_type: str) -> bool:
    """Whether FastAPI hands the body to json, in the version that asks least for it."""
    if not content_type:
        return True
    message = email.message.Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    is_json = subtype == "json" or subtype.endswith("+json")
    return message.get_content_maintype() == "application" and is_json


def read(model: type[Read], content_type: bytes, body: bytes) -> Read | None:
    """What the engine would run; None for what it refuses. `content_type` is b"" if none came."""
    if not reads_json(content_type.decode("latin-1")):
        return None
    try:
        return model.model_validate(json.loads(body))
    except (ValueError, RecursionError, ValidationError):
        return None


def seats(read: Completion | Chat | Embedding | Rerank) -> int:
    """Sequences that run side by side."""
    if not isinstance(read, _Sampled):
        return read.sequences
    return max(read.n or 1, read.best_of or 1) * read.sequences
