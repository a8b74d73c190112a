"""From the fields of a request to sequences for the engine, refused where vLLM refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.simulator.errors import bad_request
from proxy.simulator.generation import Output
from proxy.simulator.sequence import Sequence
from proxy.simulator.text import Answer, count_tokens

if TYPE_CHECKING:
    from proxy.simulator.bodies import Prompts
    from proxy.simulator.options import SimulatorOptions

_MAX_N = 16384
# Longest token of a usual vocabulary: text beyond so many characters a token is not even tokenized.
_MAX_TOKEN_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class Prompt:
    """`seed` is what the answer depends on."""

    tokens: int
    seed: bytes

    @classmethod
    def of_text(cls, text: str, max_model_len: int) -> Prompt:
        """Raises ApiError for a text that is too long, before it is counted if it is far too
        long."""
        most_characters = max_model_len * _MAX_TOKEN_CHARACTERS
        if len(text) > most_characters:
            raise bad_request(
                f"This model's maximum context length is {max_model_len} tokens. However, your "
                f"prompt contains {len(text)} characters (more than {most_characters} characters, "
                f"which is the upper bound for {max_model_len} input tokens). "
                f"Please reduce the length of the input prompt.",
                "input_text",
                len(text),
            )
        # vLLM stops tokenizing one token past the limit, and reports that.
        tokens = min(count_tokens(text), max_model_len + 1)
        return cls._checked(tokens, text.encode("utf-8", "surrogatepass"), max_model_len)

    @classmethod
    def of_ids(cls, token_ids: list[int], max_model_len: int) -> Prompt:
        return cls._checked(len(token_ids), repr(token_ids).encode(), max_model_len)

    @classmethod
    def _checked(cls, tokens: int, seed: bytes, max_model_len: int) -> Prompt:
        if not tokens:
            raise bad_request("The decoder prompt cannot be empty")
        if tokens > max_model_len:
            qualifier = "at least " if tokens == max_model_len + 1 else ""
            raise bad_request(
                f"This model's maximum context length is {max_model_len} tokens. However, your "
                f"prompt contains {qualifier}{tokens} input tokens, which exceeds this limit even "
                f"without any output tokens. Please reduce the length of the input prompt.",
                "input_tokens",
                tokens,
            )
        return cls(tokens, seed)


def read_prompts(prompts: Prompts, max_model_len: int) -> list[Prompt]:
    """A prompt, or several: as text or as token ids."""
    if isinstance(prompts, str):
        return [Prompt.of_text(prompts, max_model_len)]
    if not prompts:
        raise bad_request("You must pass at least one prompt")
    if isinstance(prompts[0], int):
        return [Prompt.of_ids(prompts, max_model_len)]
    return [
        Prompt.of_text(prompt, max_model_len)
        if isinstance(prompt, str)
        else Prompt.of_ids(prompt, max_model_len)
        for prompt in prompts
    ]


def count_prompts(prompts: Prompts) -> int:
    """How many prompts there are, before any is looked at."""
    one = isinstance(prompts, str) or not prompts or isinstance(prompts[0], int)
    return 1 if one else len(prompts)


def conversation_text(messages: list[dict[str, Any]], system: object = None) -> str:
    """Messages as a chat template would render them."""
    if not messages:
        raise bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    turns = [{"role": "system", "content": system}] if system else []
    lines = [f"{turn.get('role')}: {_plain(turn.get('content'))}\n" for turn in turns + messages]
    return "".join([*lines, "assistant:"])


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join([text for text in parts if isinstance(text, str)])


@dataclass(frozen=True, slots=True)
class Wish:
    """How a request wants to be answered. `max_tokens_param` is the name it used for the limit."""

    n: int = 1
    max_tokens: int | None = None
    max_tokens_param: str = "max_tokens"
    stop: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    ignore_eos: bool = False

    def outputs(self, prompts: list[Prompt], options: SimulatorOptions) -> list[Output]:
        """`n` sequences for each prompt. Raises ApiError."""
        self._check()
        return [
            self._output(prompt, index, options) for prompt in prompts for index in range(self.n)
        ]

    def check_max_tokens(self, max_model_len: int) -> None:
        """vLLM looks at this before it looks at the prompt."""
        if self.max_tokens is not None and self.max_tokens > max_model_len:
            raise bad_request(
                f"{self.max_tokens_param}={self.max_tokens} cannot be greater than "
                f"max_model_len={max_model_len}. Please request fewer output tokens.",
                self.max_tokens_param,
                self.max_tokens,
            )

    def _check(self) -> None:
        if self.n < 1:
            raise bad_request(f"n must be at least 1, got {self.n}.")
        if self.n > _MAX_N:
            raise bad_request(
                f"n must be at most {_MAX_N}, got {self.n}. To increase this limit, set the "
                f"VLLM_MAX_N_SEQUENCES environment variable."
            )
        if self.temperature is not None and self.temperature < 0:
            message = f"temperature must be non-negative, got {self.temperature}."
            raise bad_request(message, "temperature", self.temperature)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise bad_request(f"top_p must be in (0, 1], got {self.top_p}.", "top_p", self.top_p)

    def _output(self, prompt: Prompt, index: int, options: SimulatorOptions) -> Output:
        room = options.max_model_len - prompt.tokens
        limit = room if self.max_tokens is None else min(self.max_tokens, room)
        if limit < 1:
            raise bad_request(f"max_tokens must be at least 1, got {limit}.", "max_tokens", limit)
        answer = Answer.to_prompt(prompt.seed, index, options.output_tokens)
        natural = None if self.ignore_eos else answer.natural_length
        stop = answer.stopped_by(self.stop, min(limit, natural or limit)) if self.stop else None
        stop_after = natural if stop is None else stop.tokens
        return Output(Sequence(prompt.tokens, limit, stop_after), answer, stop)


def pooling_output(prompt: Prompt) -> Output:
    """Prefill and no tokens: the shape of embeddings and scores."""
    return Output(Sequence(prompt.tokens, 0), Answer.to_prompt(prompt.seed, 0, 1))
