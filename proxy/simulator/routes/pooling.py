"""The routes of pooling models: embeddings, /pooling, /score and /rerank.

A real server runs either a generating or a pooling model; this one pretends to be both.
"""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.simulator.bodies import EmbeddingBody, RerankBody, ScoreBody, read_body
from proxy.simulator.prompting import Prompt, pooling_output, read_prompts
from proxy.simulator.routes.work import wait_for_all

if TYPE_CHECKING:
    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation
    from proxy.simulator.service import Service

_DIMENSIONS = 32

PoolingBody = TypeVar("PoolingBody", EmbeddingBody, ScoreBody, RerankBody)


async def embeddings(service: Service, exchange: Exchange) -> None:
    body = _read(service, exchange, EmbeddingBody)
    prompts = read_prompts(body.input, service.options.max_model_len)
    generation = await _pool(service, exchange, prompts)
    as_text = body.encoding_format == "base64"
    vectors = [_vector(prompt) for prompt in prompts]
    data = [
        {"index": index, "object": "embedding", "embedding": _base64(v) if as_text else v}
        for index, v in enumerate(vectors)
    ]
    await exchange.json(200, _listed(service, exchange, "embd-", data, generation))


async def pooling(service: Service, exchange: Exchange) -> None:
    body = _read(service, exchange, EmbeddingBody)
    prompts = read_prompts(body.input, service.options.max_model_len)
    generation = await _pool(service, exchange, prompts)
    data = [
        {"index": index, "object": "pooling", "data": _vector(prompt)}
        for index, prompt in enumerate(prompts)
    ]
    await exchange.json(200, _listed(service, exchange, "pooling-", data, generation))


async def score(service: Service, exchange: Exchange) -> None:
    body = _read(service, exchange, ScoreBody)
    queries = [body.queries] if isinstance(body.queries, str) else body.queries
    documents = [body.documents] if isinstance(body.documents, str) else body.documents
    if len(queries) == 1:
        queries *= len(documents)
    pairs = [
        _pair(service, query, document) for query, document in zip(queries, documents, strict=False)
    ]
    generation = await _pool(service, exchange, pairs)
    data = [
        {"index": index, "object": "score", "score": _score(pair)}
        for index, pair in enumerate(pairs)
    ]
    await exchange.json(200, _listed(service, exchange, "score-", data, generation))


async def rerank(service: Service, exchange: Exchange) -> None:
    body = _read(service, exchange, RerankBody)
    pairs = [_pair(service, body.query, document) for document in body.documents]
    generation = await _pool(service, exchange, pairs)
    results = [
        {
            "index": index,
            "document": {"text": document, "multi_modal": None},
            "relevance_score": _score(pair),
        }
        for index, (document, pair) in enumerate(zip(body.documents, pairs, strict=True))
    ]
    results.sort(key=lambda result: -float(str(result["relevance_score"])))
    answer = {
        "id": service.request_id("score-", exchange),
        "model": service.model,
        "usage": {
            "prompt_tokens": generation.prompt_tokens,
            "total_tokens": generation.prompt_tokens,
        },
        "results": results[: body.top_n or None],
    }
    await exchange.json(200, answer)


def _read(service: Service, exchange: Exchange, shape: type[PoolingBody]) -> PoolingBody:
    body = read_body(shape, exchange)
    service.check_model(body.model)
    return body


async def _pool(service: Service, exchange: Exchange, prompts: list[Prompt]) -> Generation:
    service.check_admission(len(prompts))
    generation = service.engine.generate(
        [pooling_output(prompt) for prompt in prompts], stream=False
    )
    await wait_for_all(exchange, generation)
    return generation


def _pair(service: Service, query: str, document: str) -> Prompt:
    return Prompt.of_text(f"{query} {document}", service.options.max_model_len)


def _vector(prompt: Prompt) -> list[float]:
    """The same for the same prompt, of length 1."""
    dice = random.Random(zlib.crc32(prompt.seed))
    raw = [dice.gauss(0.0, 1.0) for _ in range(_DIMENSIONS)]
    length = sum(value * value for value in raw) ** 0.5
    return [value / length for value in raw]


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _score(pair: Prompt) -> float:
    """Between 0 and 1, the same for the same pair."""
    return zlib.crc32(pair.seed) / 2**32


def _listed(
    service: Service,
    exchange: Exchange,
    id_prefix: str,
    data: list[dict[str, Any]],
    generation: Generation,
) -> dict[str, Any]:
    usage = {
        "prompt_tokens": generation.prompt_tokens,
        "total_tokens": generation.prompt_tokens,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }
    return {
        "id": service.request_id(id_prefix, exchange),
        "object": "list",
        "created": service.created(),
        "model": service.model,
        "data": data,
        "usage": usage,
    }
