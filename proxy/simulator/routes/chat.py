"""POST /v1/chat/completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.simulator.bodies import ChatBody, read_body
from proxy.simulator.prompting import Prompt, Wish, conversation_text
from proxy.simulator.routes.usage import StreamUsage, usage_fields
from proxy.simulator.routes.work import answer_stream, wait_for_all

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation, Output
    from proxy.simulator.service import Service

_ID_PREFIX = "chatcmpl-"


async def chat_completions(service: Service, exchange: Exchange) -> None:
    body = read_body(ChatBody, exchange)
    usage = StreamUsage.asked(body.stream, body.stream_options)
    service.check_model(body.model)
    service.check_admission(body.n or 1)
    wish = _wish(body)
    wish.check_max_tokens(service.options.max_model_len)
    prompt = Prompt.of_text(conversation_text(body.messages), service.options.max_model_len)
    outputs = wish.outputs([prompt], service.options)
    generation = service.engine.generate(outputs, stream=bool(body.stream), n=wish.n)
    answer = _ChatAnswer(service.request_id(_ID_PREFIX, exchange), service.created(), service)
    if body.stream:
        await answer_stream(exchange, generation, answer.events(generation, usage))
        return
    await wait_for_all(exchange, generation)
    await exchange.json(200, answer.whole(generation))


def _wish(body: ChatBody) -> Wish:
    newer = body.max_completion_tokens
    return Wish(
        n=1 if body.n is None else body.n,
        max_tokens=body.max_tokens if newer is None else newer,
        max_tokens_param="max_tokens" if newer is None else "max_completion_tokens",
        stop=[body.stop] if isinstance(body.stop, str) else body.stop,
        temperature=body.temperature,
        top_p=body.top_p,
        ignore_eos=body.ignore_eos,
    )


@dataclass(frozen=True, slots=True)
class _ChatAnswer:
    request_id: str
    created: int
    service: Service

    def whole(self, generation: Generation) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.service.model,
            "choices": [
                _whole_choice(index, output) for index, output in enumerate(generation.outputs)
            ],
            "service_tier": None,
            "system_fingerprint": self.service.fingerprint,
            "usage": usage_fields(generation),
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    async def events(
        self, generation: Generation, usage: StreamUsage
    ) -> AsyncGenerator[dict[str, Any], None]:
        roles_told = False
        async for index, output in generation.deltas():
            if not roles_told:
                roles_told = True
                for chunk in self._role_chunks(generation, usage):
                    yield chunk
            chunk = self._chunk([_delta_choice(index, output)])
            if output.finish_reason is not None and not usage.at_end:
                chunk["system_fingerprint"] = self.service.fingerprint
            yield chunk | usage.beside(output)
        if usage.at_end:
            yield self._chunk([]) | usage.last(generation, self.service.fingerprint)

    def _role_chunks(self, generation: Generation, usage: StreamUsage) -> list[dict[str, Any]]:
        """One for each answer, before anything is said."""
        delta = {"role": "assistant", "content": ""}
        rest = {"prompt_token_ids": None, "prompt_text": None}
        return [
            self._chunk([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}])
            | usage.before(output)
            | rest
            for index, output in enumerate(generation.outputs)
        ]

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.service.model,
            "choices": choices,
        }


def _whole_choice(index: int, output: Output) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": output.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": None,
        "routed_experts": None,
    }


def _delta_choice(index: int, output: Output) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": index,
        "delta": {"content": output.delta()},
        "logprobs": None,
        "finish_reason": output.finish_reason,
    }
    if output.finish_reason is not None:
        choice["stop_reason"] = output.stop_reason
    choice["token_ids"] = None
    return choice
