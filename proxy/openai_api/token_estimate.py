"""How many tokens a request will take, before the engine has counted them.

    prompt tokens = P (a + b x)             P: prompts, x: bytes of JSON for each of them
    KV tokens     = S min(a + b x + o, L)   S: sequences, o: output of each, L: model length

a and b are a line (proxy/openai_api/robust_line.py) that is fitted, per model, to what the engine
counted for requests before. It starts at 4 bytes a token and a = 0: the 35 bytes of JSON around a
message stand for the tokens that the chat template puts there. o is `max_tokens`, or what answers
to requests without it have had on average, 512 at first. A prompt given as token ids is counted.

With n choices the prompt counts once while it is prefilled, since the choices share its blocks,
and with each sequence in the KV cache, since nothing promises that they go on sharing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from proxy.openai_api.robust_line import RobustLine

if TYPE_CHECKING:
    from proxy.openai_api.measure import Measured
    from proxy.openai_api.usage import Usage

BYTES_PER_TOKEN = 4.0
OUTPUT_TOKENS = 512.0
MAX_MODELS = 64

_MEMORY = 64


class RunningMean:
    """Of the last values: of all at first, later with a weight that fades over _MEMORY of them."""

    __slots__ = ("_seen", "value")

    def __init__(self, value: float | None = None) -> None:
        """`value` stands until there is a first one."""
        self.value = value
        self._seen = 0

    def learn(self, value: float) -> None:
        self._seen = min(self._seen + 1, _MEMORY)
        mean = self.value if self._seen > 1 and self.value is not None else value
        self.value = mean + (value - mean) / self._seen


class _Habits:
    """Of one model: how its tokens come out of bytes, and how much it says unasked."""

    __slots__ = ("line", "output")

    def __init__(self, intercept: float, slope: float, output: float) -> None:
        self.line = RobustLine(intercept, slope)
        self.output = RunningMean(output)


class TokenEstimate:
    """Learns from every answer that tells its usage. One for all engines of a gateway.

    The names of models are what clients wrote; no more than `max_models` are kept, those that
    answered last. Any other is estimated as all together are.
    """

    __slots__ = ("_all", "_error", "_max_models", "_models", "_seat_tokens")

    def __init__(self, max_models: int = MAX_MODELS) -> None:
        self._max_models = max_models
        self._models: OrderedDict[str, _Habits] = OrderedDict()
        self._all = _Habits(0.0, 1 / BYTES_PER_TOKEN, OUTPUT_TOKENS)
        self._error = RunningMean()
        self._seat_tokens = RunningMean()

    @property
    def error(self) -> float | None:
        """Mean absolute error of the estimates of prompts, as a share of what they really had.
        None before the first comparison; counted prompts are left out."""
        return self._error.value

    @property
    def tokens_per_seat(self) -> float | None:
        """Prompt and output of one sequence at its end, on average; None before the first."""
        return self._seat_tokens.value

    def prompt_tokens(self, measured: Measured, model_len: int | None = None) -> int:
        """Of all prompts together, at least 1. `model_len` is the most that each may have."""
        each = _at_most(self._each_prompt(measured), model_len)
        return max(round(each * measured.prompts), 1)

    def kv_tokens(self, measured: Measured, model_len: int | None = None) -> int:
        """Of all sequences at their end, if each says as much as it may; at least 1."""
        output: float | None = measured.max_tokens
        if output is None:
            output = self._habits(measured).output.value or 0.0
        each = _at_most(self._each_prompt(measured) + output, model_len)
        return max(round(each * measured.seats), 1)

    def learn(self, measured: Measured, usage: Usage) -> None:
        """From an answer that was complete."""
        if usage.prompt_tokens <= 0:
            return
        each_prompt = usage.prompt_tokens / measured.prompts
        each_output = usage.completion_tokens / measured.seats
        self._seat_tokens.learn(each_prompt + each_output)
        own = self._own_habits(measured.model) if measured.model is not None else None
        if measured.prompt_token_ids is None and measured.prompt_bytes > 0:
            expected = self._each_prompt(measured)
            self._error.learn(abs(expected - each_prompt) / each_prompt)
            self.learn_mean(measured.prompt_bytes / measured.prompts, each_prompt)
            if own is not None:
                own.line.learn(measured.prompt_bytes / measured.prompts, each_prompt)
        if measured.max_tokens is None:
            self._all.output.learn(each_output)
            if own is not None:
                own.output.learn(each_output)

    def learn_mean(self, prompt_bytes: float, prompt_tokens: float) -> None:
        """From the means over some prompts of whatever models: on a line they are a pair as well.
        Teaches nothing about a model that has told its usage."""
        self._all.line.learn(prompt_bytes, prompt_tokens)

    def _each_prompt(self, measured: Measured) -> float:
        if measured.prompt_token_ids is not None:
            return measured.prompt_token_ids / measured.prompts
        return self._habits(measured).line.at(measured.prompt_bytes / measured.prompts)

    def _habits(self, measured: Measured) -> _Habits:
        model = measured.model
        return self._all if model is None else self._models.get(model, self._all)

    def _own_habits(self, model: str) -> _Habits:
        """A new model starts from what all have shown so far."""
        habits = self._models.get(model)
        if habits is None:
            line, output = self._all.line, self._all.output.value or 0.0
            habits = self._models[model] = _Habits(line.intercept, line.slope, output)
            if len(self._models) > self._max_models:
                self._models.popitem(last=False)
        self._models.move_to_end(model)
        return habits


def certainly_exceeds(measured: Measured, model_len: int) -> bool:
    """Whether the engine cannot but refuse a prompt as too long: it was counted, not estimated."""
    longest = measured.longest_prompt_token_ids
    return longest is not None and longest > model_len


def _at_most(tokens: float, most: int | None) -> float:
    return tokens if most is None else min(tokens, most)
