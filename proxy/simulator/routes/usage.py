"""The `usage` of an answer, and of a stream that asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from proxy.simulator.errors import bad_request

if TYPE_CHECKING:
    from proxy.simulator.bodies import StreamOptions
    from proxy.simulator.generation import Generation, Output


def usage_fields(generation: Generation) -> dict[str, Any]:
    """Of a whole answer."""
    counts = _counts(generation.prompt_tokens, generation.completion_tokens)
    return counts | {"prompt_tokens_details": None, "completion_tokens_details": None}


@dataclass(frozen=True, slots=True)
class StreamUsage:
    """`at_end`: one more chunk for it; `all_along`: with every chunk, too."""

    at_end: bool = False
    all_along: bool = False

    @classmethod
    def asked(cls, stream: bool | None, options: StreamOptions | None) -> Self:
        """Raises ApiError for stream options without a stream."""
        if options is None:
            return cls()
        if not stream:
            message = "Stream options can only be defined when `stream=True`."
            raise bad_request(message, "stream_options")
        at_end = bool(options.include_usage)
        return cls(at_end, at_end and bool(options.continuous_usage_stats))

    def before(self, output: Output) -> dict[str, Any]:
        """With the chunk that opens an answer."""
        return self._chunk_usage(output.sequence.prompt_tokens, 0)

    def beside(self, output: Output) -> dict[str, Any]:
        """With a chunk that tells of some tokens."""
        return self._chunk_usage(output.sequence.prompt_tokens, output.told_tokens)

    def last(self, generation: Generation, fingerprint: str) -> dict[str, Any]:
        """What the chunk at the end has besides its empty choices."""
        counts = _counts(generation.prompt_tokens, generation.completion_tokens)
        return {"usage": counts, "system_fingerprint": fingerprint}

    def _chunk_usage(self, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
        if not self.all_along:
            return {}
        counts = _counts(prompt_tokens, completion_tokens)
        return {"usage": counts | {"completion_tokens_details": None}}


def _counts(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
