"""POST /v1/completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.simulator.bodies import CompletionBody, read_body
from proxy.simulator.errors import bad_request
from proxy.simulator.prompting import Wish, count_prompts, read_prompts
from proxy.simulator.routes.usage import StreamUsage, usage_fields
from proxy.simulator.routes.work import answer_stream, wait_for_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation, Output
    from proxy.simulator.service import Service

_ID_PREFIX = "cmpl-"


async def completions(service: Service, exchange: Exchange) -> None:
    body = read_body(CompletionBody, exchange)
    if body.prompt is None or body.prompt == "":
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise bad_request(message, "prompt")
    usage = StreamUsage.asked(body.stream, body.stream_options)
    service.check_model(body.model)
    wish = _wish(body)
    service.check_admission(max(1, wish.n) * count_prompts(body.prompt))
    wish.check_max_tokens(service.options.max_model_len)
    prompts = read_prompts(body.prompt, service.options.max_model_len)
    outputs = wish.outputs(prompts, service.options)
    generation = service.engine.generate(outputs, stream=bool(body.stream), n=wish.n)
    answer = _CompletionAnswer(service.request_id(_ID_PREFIX, exchange), service.created(), service)
    if body.stream:
        await answer_stream(exchange, generation, answer.events(generation, usage))
        return
    await wait_for_all(exchange, generation)
    await exchange.json(200, answer.whole(generation))


def _wish(body: CompletionBody) -> Wish:
    return Wish(
        n=1 if body.n is None else body.n,
        max_tokens=body.max_tokens,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop,
        temperature=body.temperature,
        top_p=body.top_p,
        ignore_eos=body.ignore_eos,
    )


@dataclass(frozen=True, slots=True)
class _CompletionAnswer:
    request_id: str
    created: int
    service: Service

    def whole(self, generation: Generation) -> dict[str, Any]:
        choices = [_whole_choice(index, output) for index, output in enumerate(generation.outputs)]
        return self._chunk(choices) | {
            "service_tier": None,
            "system_fingerprint": self.service.fingerprint,
            "usage": usage_fields(generation),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    async def events(
        self, generation: Generation, usage: StreamUsage
    ) -> AsyncGenerator[dict[str, Any], None]:
        async for index, output in generation.deltas():
            chunk = self._chunk([_delta_choice(index, output)])
            if output.finish_reason is not None and not usage.at_end:
                chunk["system_fingerprint"] = self.service.fingerprint
            yield chunk | usage.beside(output)
        if usage.at_end:
            yield self._chunk([]) | usage.last(generation, self.service.fingerprint)

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": "text_completion",
            "created": self.created,
            "model": self.service.model,
            "choices": choices,
        }


def _whole_choice(index: int, output: Output) -> dict[str, Any]:
    return {
        "index": index,
        "text": output.text,
        "logprobs": None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def _delta_choice(index: int, output: Output) -> dict[str, Any]:
    return {
        "index": index,
        "text": output.delta(),
        "logprobs": None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "prompt_token_ids": None,
        "token_ids": None,
    }
