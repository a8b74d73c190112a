"""POST /v1/responses in its simple form, and the routes of stored responses, of which there are
none."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from proxy.simulator.bodies import ResponsesBody, read_body
from proxy.simulator.engine import EngineDeadError
from proxy.simulator.errors import engine_dead, no_such_response
from proxy.simulator.prompting import Prompt, Wish, conversation_text
from proxy.simulator.routes.work import wait_for_all

if TYPE_CHECKING:
    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation, Output
    from proxy.simulator.service import Service

RESPONSES_PATH = "/v1/responses/"
CANCEL_SUFFIX = "/cancel"


async def responses(service: Service, exchange: Exchange) -> None:
    body = read_body(ResponsesBody, exchange)
    generation = _generate(service, body)
    answer = _ResponsesAnswer(
        service.request_id("resp_", exchange),
        service.new_id("msg_"),
        service.created(),
        service.model,
        body,
    )
    if body.stream:
        await _stream(exchange, generation, answer)
        return
    await wait_for_all(exchange, generation)
    await exchange.json(200, answer.response(generation.outputs[0]))


async def stored_response(_service: Service, exchange: Exchange) -> None:
    response_id = exchange.path.removeprefix(RESPONSES_PATH).removesuffix(CANCEL_SUFFIX)
    raise no_such_response(response_id)


def _generate(service: Service, body: ResponsesBody) -> Generation:
    service.check_model(body.model)
    service.check_admission(1)
    wish = Wish(
        max_tokens=body.max_output_tokens,
        max_tokens_param="max_output_tokens",
        temperature=body.temperature,
        top_p=body.top_p,
        ignore_eos=body.ignore_eos,
    )
    wish.check_max_tokens(service.options.max_model_len)
    turns = body.input
    if isinstance(turns, str):
        turns = [{"role": "user", "content": turns}]
    text = conversation_text(turns, body.instructions)
    prompt = Prompt.of_text(text, service.options.max_model_len)
    outputs = wish.outputs([prompt], service.options)
    return service.engine.generate(outputs, stream=bool(body.stream))


async def _stream(exchange: Exchange, generation: Generation, answer: _ResponsesAnswer) -> None:
    try:
        with exchange.watch(generation.abort):
            await exchange.start_events()
            try:
                await _tell(exchange, generation, answer)
            except EngineDeadError:
                await exchange.event(engine_dead().body(), "error")
            await exchange.end_events(last=b"")
    finally:
        generation.abort()


async def _tell(exchange: Exchange, generation: Generation, answer: _ResponsesAnswer) -> None:
    numbers = count()

    async def event(name: str, fields: dict[str, Any]) -> None:
        numbered = fields | {"sequence_number": next(numbers), "type": name}
        await exchange.event(numbered, name)

    output = generation.outputs[0]
    place = {"output_index": 0}
    part_place = place | {"content_index": 0, "item_id": answer.message_id}
    await event("response.created", {"response": answer.response(None)})
    await event("response.in_progress", {"response": answer.response(None)})
    opened = False
    async for _ in generation.deltas():
        if not opened:
            opened = True
            await event("response.output_item.added", place | {"item": answer.item(None)})
            await event("response.content_part.added", part_place | {"part": _part("", [])})
        delta = part_place | {"delta": output.delta(), "logprobs": []}
        await event("response.output_text.delta", delta)
    text = output.text
    await event("response.output_text.done", part_place | {"text": text, "logprobs": []})
    await event("response.content_part.done", part_place | {"part": _part(text, None)})
    await event("response.output_item.done", place | {"item": answer.item(text)})
    await event("response.completed", {"response": answer.response(output)})


@dataclass(frozen=True, slots=True)
class _ResponsesAnswer:
    response_id: str
    message_id: str
    created: int
    model: str
    body: ResponsesBody

    def item(self, text: str | None) -> dict[str, Any]:
        """The one message of a response; None while nothing of it has been said."""
        return {
            "id": self.message_id,
            "content": [] if text is None else [_part(text, None)],
            "role": "assistant",
            "status": "in_progress" if text is None else "completed",
            "type": "message",
            "phase": None,
        }

    def response(self, output: Output | None) -> dict[str, Any]:
        """None: it has only begun."""
        cut = output is not None and output.finish_reason == "length"
        status = "in_progress" if output is None else "incomplete" if cut else "completed"
        body = self.body
        return {
            "id": self.response_id,
            "created_at": self.created,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": body.instructions,
            "metadata": None,
            "model": self.model,
            "object": "response",
            "output": [] if output is None else [self.item(output.text)],
            "parallel_tool_calls": True,
            "temperature": 1.0 if body.temperature is None else body.temperature,
            "tool_choice": "none",
            "tools": [],
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "background": False,
            "max_output_tokens": body.max_output_tokens,
            "max_tool_calls": None,
            "previous_response_id": None,
            "prompt": None,
            "reasoning": None,
            "service_tier": "auto",
            "status": status,
            "text": None,
            "top_logprobs": None,
            "truncation": "disabled",
            "usage": None if output is None else _usage(output),
            "user": None,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
        }


def _part(text: str, logprobs: list[Any] | None) -> dict[str, Any]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": logprobs}


def _usage(output: Output) -> dict[str, Any]:
    prompt_tokens, generated = output.sequence.prompt_tokens, output.sequence.generated
    return {
        "input_tokens": prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": 0,
            "cache_write_tokens": 0,
            "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": generated,
        "output_tokens_details": {
            "reasoning_tokens": 0,
            "tool_output_tokens": 0,
            "output_tokens_per_turn": [],
            "tool_output_tokens_per_turn": [],
        },
        "total_tokens": prompt_tokens + generated,
    }
