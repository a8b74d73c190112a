"""Routes that never touch the queue: health, version, models, tokenize, faults."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proxy.simulator.bodies import DetokenizeBody, TokenizeBody, TokenizeTextBody, read_body
from proxy.simulator.errors import unreadable
from proxy.simulator.faults import parse_fault
from proxy.simulator.log_lines import VLLM_VERSION
from proxy.simulator.metrics_page import CONTENT_TYPE, metrics_page
from proxy.simulator.nvidia_smi import nvidia_smi_csv
from proxy.simulator.prompting import conversation_text
from proxy.simulator.text import detokenize as text_of
from proxy.simulator.text import tokenize as ids_of

if TYPE_CHECKING:
    from proxy.simulator.exchange import Exchange
    from proxy.simulator.service import Service


async def health(service: Service, exchange: Exchange) -> None:
    """An engine that is stalled is healthy; only a dead one is not."""
    await exchange.answer(503 if service.engine.dead else 200)


async def version(_service: Service, exchange: Exchange) -> None:
    await exchange.json(200, {"version": VLLM_VERSION})


async def load(service: Service, exchange: Exchange) -> None:
    await exchange.json(200, {"server_load": service.load})


async def metrics(service: Service, exchange: Exchange) -> None:
    await exchange.answer(200, metrics_page(service).encode(), CONTENT_TYPE)


async def models(service: Service, exchange: Exchange) -> None:
    created = service.created()
    permission = {
        "id": service.new_id("modelperm-"),
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": service.model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": service.model,
        "parent": None,
        "max_model_len": service.options.max_model_len,
        "permission": [permission],
    }
    await exchange.json(200, {"object": "list", "data": [card]})


async def tokenize(service: Service, exchange: Exchange) -> None:
    body = read_body(TokenizeBody, exchange).root
    service.check_model(body.model)
    tokens = ids_of(
        body.prompt if isinstance(body, TokenizeTextBody) else conversation_text(body.messages)
    )
    answer = {
        "count": len(tokens),
        "max_model_len": service.options.max_model_len,
        "tokens": tokens,
        "token_strs": [text_of([token]) for token in tokens] if body.return_token_strs else None,
    }
    await exchange.json(200, answer)


async def detokenize(service: Service, exchange: Exchange) -> None:
    body = read_body(DetokenizeBody, exchange)
    service.check_model(body.model)
    await exchange.json(200, {"prompt": text_of(body.tokens)})


async def gpu(service: Service, exchange: Exchange) -> None:
    """Not vLLM's: what nvidia-smi would show of the simulated card, in its CSV form."""
    page = nvidia_smi_csv(service.options.memory, service.engine.snapshot(), time.time())
    await exchange.answer(200, page.encode(), b"text/csv; charset=utf-8")


async def inject_fault(service: Service, exchange: Exchange) -> None:
    """Not vLLM's: lets a fault, in its written form, set in. An empty body ends all faults."""
    text = exchange.body.decode("utf-8", "replace").strip()
    try:
        if text:
            service.engine.schedule(parse_fault(text))
        else:
            service.engine.recover()
    except ValueError as error:
        raise unreadable(str(error), None) from None
    await exchange.answer(204)
