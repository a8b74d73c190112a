"""The official openai client: only its base_url is changed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import openai
import pytest

from tests.support.engine_process import MAX_MODEL_LEN, MAX_NUM_SEQS, MODEL, EngineProcess
from tests.support.engine_requests import MESSAGES
from tests.support.gateway_process import gateway
from tests.support.raw_client import ask_once, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

EXACT = {"ignore_eos": True}


@asynccontextmanager
async def sdk(engine: EngineProcess, **settings: object) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client as an application has it, pointed at a gateway in front of the engine."""
    async with (
        gateway(engine.url, max_num_seqs=MAX_NUM_SEQS, **settings) as sluice,
        openai.AsyncOpenAI(base_url=f"{sluice.url}/v1", api_key="sk-client") as client,
    ):
        yield client


def on(
    engine: EngineProcess,
    use: Callable[[openai.AsyncOpenAI], Awaitable[None]],
    **settings: object,
) -> None:
    async def scenario() -> None:
        async with sdk(engine, **settings) as client:
            await use(client)

    asyncio.run(scenario())


def test_chat(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=5, n=2, extra_body=EXACT
        )
        assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 10

    on(engine, use)


def test_chat_as_a_stream(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=MESSAGES,
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=EXACT,
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-2].choices[0].finish_reason == "length"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 5

    on(engine, use)


def test_completions(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        answer = await client.completions.create(
            model=MODEL, prompt=["hello", "there"], max_tokens=5, extra_body=EXACT
        )
        assert [choice.index for choice in answer.choices] == [0, 1]
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 10

    on(engine, use)


def test_completions_as_a_stream(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        stream = await client.completions.create(
            model=MODEL, prompt="hello", max_tokens=5, stream=True, extra_body=EXACT
        )
        reasons = [chunk.choices[0].finish_reason async for chunk in stream]
        assert reasons[-1] == "length"

    on(engine, use)


def test_responses(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        answer = await client.responses.create(model=MODEL, input="hello", max_output_tokens=5)
        assert answer.output[0].type == "message"
        assert answer.usage is not None
        assert 0 < answer.usage.output_tokens <= 5

    on(engine, use)


def test_responses_as_a_stream(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        stream = await client.responses.create(
            model=MODEL, input="hello", max_output_tokens=5, stream=True
        )
        types = [event.type async for event in stream]
        assert types[0] == "response.created"
        assert types[-1] in ("response.completed", "response.incomplete")

    on(engine, use)


def test_the_list_of_models(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        models = await client.models.list()
        assert [model.id for model in models.data] == [MODEL]
        assert models.data[0].model_extra is not None
        assert models.data[0].model_extra["max_model_len"] == MAX_MODEL_LEN

    on(engine, use)


@pytest.mark.parametrize("count", [1, 3 * MAX_NUM_SEQS])
def test_embeddings_also_of_more_inputs_than_there_are_seats(
    embedding_engine: EngineProcess, count: int
) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        answer = await client.embeddings.create(model=MODEL, input=["hello"] * count)
        assert [vector.index for vector in answer.data] == list(range(count))
        assert len({len(vector.embedding) for vector in answer.data}) == 1

    on(embedding_engine, use, upstream_api_key=embedding_engine.api_key)


def test_a_wrong_upstream_key_is_seen_by_the_client_and_by_readyz(
    embedding_engine: EngineProcess,
) -> None:
    async def scenario() -> None:
        async with (
            gateway(
                embedding_engine.url,
                max_num_seqs=MAX_NUM_SEQS,
                upstream_api_key="wrong",
                wait_until_ready=False,
            ) as sluice,
            openai.AsyncOpenAI(base_url=f"{sluice.url}/v1", api_key="sk-client") as client,
        ):
            with pytest.raises(openai.AuthenticationError):
                await client.embeddings.create(model=MODEL, input="hello")
            ready = await ask_once(sluice.port, request_bytes("/readyz", b"", "GET"))
            assert ready.status == 503
            assert b"SLUICE_UPSTREAM_API_KEY" in ready.body

    asyncio.run(scenario())


def test_the_engines_errors_reach_the_client_as_they_are(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as too_long:
            await client.completions.create(model=MODEL, prompt=[5] * (MAX_MODEL_LEN + 1))
        # The SDK makes text of the numbers that vLLM has for codes.
        assert (too_long.value.code, too_long.value.param) == ("400", "input_tokens")
        assert too_long.value.request_id
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="nope", messages=MESSAGES)
        assert (unknown.value.code, unknown.value.param) == ("404", "model")
        assert unknown.value.request_id != too_long.value.request_id

    on(engine, use)


def test_our_own_errors_have_a_code_and_a_request_id(engine: EngineProcess) -> None:
    async def use(client: openai.AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.post("/sleep", cast_to=object)
        assert unknown.value.code == "unknown_path"
        assert unknown.value.request_id
        with pytest.raises(openai.BadRequestError) as wide:
            await client.completions.create(model=MODEL, prompt="x", n=3)
        assert wide.value.code == "too_many_sequences"
        assert wide.value.request_id

    on(engine, use, max_seats_per_request=2)
