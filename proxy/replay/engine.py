"""What a replay asks of an engine before it begins: which model it serves, and to count tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.upstream.errors import UpstreamError
from proxy.upstream.port import UpstreamRequest

if TYPE_CHECKING:
    from proxy.replay.requests import RequestForm
    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import RawHeaders, Upstream

_AT_ONCE = 8
_LONGEST_ANSWER = 32 * 1024 * 1024
_LONGEST_COMPLAINT = 300


class EngineError(Exception):
    """One line: what was asked, and what came of it."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model, and the most tokens of prompt and output together, where the engine says."""

    model: str
    max_model_len: int | None = None


class Engine:
    """Questions over an Upstream. `headers` go with each, as with the replay's own requests."""

    def __init__(self, upstream: Upstream, address: UpstreamAddress, headers: RawHeaders) -> None:
        self._upstream = upstream
        self._address = address
        self._headers = headers
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def served(self, model: str | None) -> Served:
        """`model`, or the first that is listed. Raises EngineError."""
        answer = await self._json("GET", b"/v1/models")
        try:
            cards = msgspec.convert(answer, _Models).data
        except msgspec.ValidationError as error:
            raise EngineError(f"{self._address}/v1/models has no list of models") from error
        for card in cards:
            if model is None or card.id == model:
                return Served(card.id, card.max_model_len)
        if model is not None and cards:
            names = ", ".join(card.id for card in cards[:5])
            raise EngineError(f"{self._address} serves no model {model!r}, but {names}")
        raise EngineError(f"{self._address}/v1/models lists no model; name one with --model")

    async def count(self, form: RequestForm, prompt: str) -> int:
        """Tokens of a request with this prompt, by /tokenize. Raises EngineError."""
        wanted = ("model", "messages", "prompt")
        body = {name: value for name, value in form.fields(prompt).items() if name in wanted}
        answer = await self._json("POST", b"/tokenize", body)
        try:
            return msgspec.convert(answer, _Count).count
        except msgspec.ValidationError as error:
            raise EngineError(f"{self._address}/tokenize counts no tokens") from error

    async def count_by_answer(self, form: RequestForm, prompt: str) -> int:
        """The same by the usage of an answer of one token. Raises EngineError."""
        whole = {"stream": False, "stream_options": None, "max_tokens": 1}
        body = {name: v for name, v in (form.fields(prompt) | whole).items() if v is not None}
        answer = await self._json("POST", form.path, body)
        try:
            return msgspec.convert(answer, _Answer).usage.prompt_tokens
        except msgspec.ValidationError as error:
            raise EngineError(f"{self._address} tells no usage") from error

    async def _json(self, method: str, path: bytes, body: dict[str, Any] | None = None) -> object:
        encoded = b"" if body is None else msgspec.json.encode(body)
        target = self._address.target(path)
        asked = UpstreamRequest(method, target, self._headers, encoded)
        shown = f"{method} {self._address}{path.decode()}"
        try:
            async with self._turns, self._upstream.exchange(asked) as response:
                answer = b""
                while len(answer) < _LONGEST_ANSWER and (piece := await response.read()):
                    answer += piece
        except UpstreamError as error:
            raise EngineError(f"{shown}: {error}") from error
        if response.status != 200:
            raise EngineError(f"{shown}: status {response.status} {_complaint(answer)}".strip())
        try:
            return msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise EngineError(f"{shown}: the answer is no JSON") from error


def _complaint(answer: bytes) -> str:
    """OpenAI's errors have a sentence in them; of anything else its beginning."""
    try:
        said = msgspec.json.decode(answer, type=_Refusal).error.message
    except msgspec.MsgspecError:
        said = answer[:_LONGEST_COMPLAINT].decode("utf-8", "replace")
    return " ".join(said[:_LONGEST_COMPLAINT].split())


class _Error(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Card]


class _Count(msgspec.Struct):
    count: int


class _Usage(msgspec.Struct):
    prompt_tokens: int


class _Answer(msgspec.Struct):
    usage: _Usage
