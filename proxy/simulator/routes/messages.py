"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.simulator.bodies import CountTokensBody, MessagesBody, read_body
from proxy.simulator.engine import EngineDeadError
from proxy.simulator.errors import ApiError, engine_dead
from proxy.simulator.prompting import Prompt, Wish, conversation_text
from proxy.simulator.routes.work import wait_for_all

if TYPE_CHECKING:
    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation, Output
    from proxy.simulator.service import Service


async def messages(service: Service, exchange: Exchange) -> None:
    # A body that cannot be read is refused in OpenAI's form even here, as vLLM does it.
    body = read_body(MessagesBody, exchange)
    try:
        generation = _generate(service, body)
    except ApiError as error:
        await exchange.json(error.status, error.anthropic_body())
        return
    message = {
        "id": service.request_id("chatcmpl-", exchange),
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": service.model,
    }
    if body.stream:
        await _stream(exchange, generation, message)
        return
    await wait_for_all(exchange, generation)
    output = generation.outputs[0]
    content = [{"type": "text", "text": output.text}]
    ending = {"stop_reason": _stop_reason(output), "usage": _usage(output)}
    await exchange.json(200, message | {"content": content} | ending)


async def count_message_tokens(service: Service, exchange: Exchange) -> None:
    body = read_body(CountTokensBody, exchange)
    try:
        service.check_model(body.model)
        text = conversation_text(body.messages, body.system)
        tokens = Prompt.of_text(text, service.options.max_model_len).tokens
    except ApiError as error:
        await exchange.json(error.status, error.anthropic_body())
        return
    context = {"original_input_tokens": tokens}
    await exchange.json(200, {"input_tokens": tokens, "context_management": context})


def _generate(service: Service, body: MessagesBody) -> Generation:
    service.check_model(body.model)
    service.check_admission(1)
    wish = Wish(
        max_tokens=body.max_tokens,
        max_tokens_param="max_completion_tokens",
        stop=body.stop_sequences,
        temperature=body.temperature,
        top_p=body.top_p,
    )
    wish.check_max_tokens(service.options.max_model_len)
    text = conversation_text(body.messages, body.system)
    prompt = Prompt.of_text(text, service.options.max_model_len)
    outputs = wish.outputs([prompt], service.options)
    return service.engine.generate(outputs, stream=bool(body.stream))


async def _stream(exchange: Exchange, generation: Generation, message: dict[str, Any]) -> None:
    try:
        with exchange.watch(generation.abort):
            await exchange.start_events()
            try:
                await _tell(exchange, generation, message)
            except EngineDeadError:
                await _event(exchange, "error", engine_dead().anthropic_body())
            await exchange.end_events(last=b"")
    finally:
        generation.abort()


async def _tell(exchange: Exchange, generation: Generation, message: dict[str, Any]) -> None:
    output = generation.outputs[0]
    started = False
    async for _ in generation.deltas():
        if not started:
            started = True
            await _open(exchange, message, output)
        delta = {"type": "text_delta", "text": output.delta()}
        await _event(exchange, "content_block_delta", {"delta": delta, "index": 0})
    await _event(exchange, "content_block_stop", {"index": 0})
    ending = {"stop_reason": _stop_reason(output), "stop_sequence": output.stop_reason}
    await _event(exchange, "message_delta", {"delta": ending, "usage": _usage(output)})
    await _event(exchange, "message_stop", {})


async def _open(exchange: Exchange, message: dict[str, Any], output: Output) -> None:
    usage = {"input_tokens": output.sequence.prompt_tokens, "output_tokens": 0}
    opening = message | {"stop_reason": None, "stop_sequence": None, "usage": usage}
    await _event(exchange, "message_start", {"message": opening})
    block = {"content_block": {"type": "text", "text": ""}, "index": 0}
    await _event(exchange, "content_block_start", block)


async def _event(exchange: Exchange, name: str, fields: dict[str, Any]) -> None:
    await exchange.event({"type": name} | fields, name)


def _stop_reason(output: Output) -> str:
    if output.finish_reason == "length":
        return "max_tokens"
    return "end_turn" if output.stop_reason is None else "stop_sequence"


def _usage(output: Output) -> dict[str, int]:
    sequence = output.sequence
    return {"input_tokens": sequence.prompt_tokens, "output_tokens": sequence.generated}
