"""The bodies of the requests of a replay, joined from pieces that are encoded once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.replay.arrival import Arrival
    from proxy.replay.prompts import PromptWriter

Route = Literal["chat", "completions"]

PATHS: Mapping[Route, bytes] = {
    "chat": b"/v1/chat/completions",
    "completions": b"/v1/completions",
}
# Stands where a prompt will: words are letters and blanks, so it needs no escaping in JSON.
_PROMPT = "\x01"
_ENCODED_PROMPT = b'"\\u0001"'


@dataclass(frozen=True, slots=True)
class RequestForm:
    """`exact_output` makes vLLM write exactly as many tokens as asked, by `ignore_eos` and
    `min_tokens`, which other engines may not know. `extra` are fields that overrule ours, `n`
    among them."""

    route: Route
    model: str
    stream: bool = True
    exact_output: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> bytes:
        return PATHS[self.route]

    def fields(self, prompt: str) -> dict[str, Any]:
        """All but the output's length and how many sequences."""
        fields: dict[str, Any] = {"model": self.model, **self._prompt(prompt)}
        if self.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.exact_output:
            fields["ignore_eos"] = True
        fields.update(self.extra)
        return fields

    def _prompt(self, prompt: str) -> dict[str, Any]:
        if self.route == "chat":
            return {"messages": [{"role": "user", "content": prompt}]}
        return {"prompt": prompt}


class RequestWriter:
    """Writes the body for an arrival: some microseconds for each thousand words."""

    def __init__(self, form: RequestForm, prompts: PromptWriter) -> None:
        encoded = msgspec.json.encode(form.fields(_PROMPT))
        self._before, _, after = encoded.partition(_ENCODED_PROMPT)
        self._after = after[:-1]
        self._prompts = prompts
        self._length = b',"max_tokens":%d,"min_tokens":%d}' if form.exact_output else None
        self._says_n = "n" in form.extra

    def body_of(self, arrival: Arrival, number: int) -> bytes:
        prompt = self._prompts.text_for(arrival, number).encode()
        most = arrival.output_tokens
        wide = b',"n":%d' % arrival.sequences if self._asks_for_several(arrival) else b""
        length = self._length % (most, most) if self._length else b',"max_tokens":%d}' % most
        return b'%b"%b"%b%b%b' % (self._before, prompt, self._after, wide, length)

    def _asks_for_several(self, arrival: Arrival) -> bool:
        return arrival.sequences > 1 and not self._says_n
