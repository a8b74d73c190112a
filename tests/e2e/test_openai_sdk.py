"""The official `openai` client, with nothing changed but its base URL.

The engine is the simulated vLLM, or a scripted one where it has to misbehave on cue. The same
client runs against a real vLLM in tests/vllm_engine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.engine_process import wait_until
from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    json_answer,
    silent,
)
from tests.support.sdk import async_sdk, sync_sdk
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from tests.support.engine_process import EngineProcess

MESSAGES: Any = [{"role": "user", "content": "Say something about seats."}]
CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
    ],
}


@dataclass
class Served:
    """A gateway in front of the simulated engine, for the tests of this module."""

    runner: asyncio.Runner
    sluice: GatewayProcess
    engine: EngineProcess

    def sync(self, use: Callable[[openai.OpenAI], Any]) -> Any:  # noqa: ANN401 - whatever it is
        """What `use` returns, run in a thread, so that somebody reads the gateway's log."""

        def run() -> Any:  # noqa: ANN401 - as above
            with sync_sdk(self.sluice.url) as client:
                return use(client)

        return self.runner.run(asyncio.to_thread(run))

    def asynchronous(self, use: Callable[[openai.AsyncOpenAI], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401 - as above
        async def run() -> Any:  # noqa: ANN401 - as above
            async with async_sdk(self.sluice.url) as client:
                return await use(client)

        return self.runner.run(run())


@pytest.fixture(scope="module", name="served")
def _served(simulated_vllm: EngineProcess) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        starting = gateway(simulated_vllm.url, max_num_seqs=simulated_vllm.max_num_seqs)
        sluice = runner.run(starting.__aenter__())
        try:
            yield Served(runner, sluice, simulated_vllm)
        finally:
            runner.run(starting.__aexit__(None, None, None))


# What works directly works through the gateway.


def test_a_chat(served: Served) -> None:
    def chat(client: openai.OpenAI) -> Any:  # noqa: ANN401 - the SDK's own type
        return client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=8)

    answer = served.sync(chat)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8
    assert answer._request_id


def test_a_chat_of_the_async_client(served: Served) -> None:
    async def chat(client: openai.AsyncOpenAI) -> Any:  # noqa: ANN401 - the SDK's own type
        return await client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=8, n=3
        )

    answer = served.asynchronous(chat)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage.completion_tokens == 24


def test_a_streamed_chat(served: Served) -> None:
    def chat(client: openai.OpenAI) -> list[Any]:
        with client.chat.completions.create(
            model="tiny",
            messages=MESSAGES,
            max_tokens=20,
            stream=True,
            stream_options={"include_usage": True},
        ) as events:
            return list(events)

    *events, last = served.sync(chat)
    assert len(events) >= 20
    assert "".join(event.choices[0].delta.content or "" for event in events)
    assert events[-1].choices[0].finish_reason == "length"
    assert (last.choices, last.usage.completion_tokens) == ([], 20)


def test_a_streamed_chat_of_the_async_client_comes_piece_by_piece(served: Served) -> None:
    """R16, as an application sees it: it has the first piece long before the last."""
    arrived_s: list[float] = []

    async def chat(client: openai.AsyncOpenAI) -> None:
        events = await client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=100, stream=True
        )
        arrived_s.extend([time.monotonic() async for _event in events])

    served.asynchronous(chat)
    assert len(arrived_s) >= 100
    # 100 steps of 3 ms at least: a buffered stream would come at one moment.
    assert arrived_s[-1] - arrived_s[0] > 0.1


def test_a_completion_of_several_prompts(served: Served) -> None:
    def complete(client: openai.OpenAI) -> Any:  # noqa: ANN401 - the SDK's own type
        return client.completions.create(
            model="tiny", prompt=["One", "Two"], max_tokens=4, n=2, extra_body={"ignore_eos": True}
        )

    answer = served.sync(complete)
    assert len(answer.choices) == 4
    assert answer.usage.completion_tokens == 16


def test_a_response_plain_and_streamed(served: Served) -> None:
    def respond(client: openai.OpenAI) -> tuple[Any, list[str]]:
        plain = client.responses.create(model="tiny", input="Hello", max_output_tokens=16)
        with client.responses.create(
            model="tiny", input="Hello", max_output_tokens=16, stream=True
        ) as events:
            return plain, [event.type for event in events]

    plain, types = served.sync(respond)
    assert plain.output_text
    assert types[0] == "response.created"
    assert "response.output_text.delta" in types
    assert types[-1] in ("response.completed", "response.incomplete")


def test_embeddings_of_more_inputs_than_there_are_seats(served: Served) -> None:
    def embed(client: openai.OpenAI) -> Any:  # noqa: ANN401 - the SDK's own type
        inputs = [f"text {number}" for number in range(50)]
        return client.embeddings.create(model="tiny", input=inputs)

    answer = served.sync(embed)
    assert [item.index for item in answer.data] == list(range(50))
    assert all(item.embedding for item in answer.data)


def test_the_models(served: Served) -> None:
    models = served.sync(lambda client: list(client.models.list()))
    assert [model.id for model in models] == ["tiny"]
    assert models[0].max_model_len == served.engine.max_model_len


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_the_engines_errors_are_the_engines(served: Served, stream: bool) -> None:
    """R25: the same class, message and code as without the gateway."""

    def provoke(url: str) -> list[tuple[type, int, object, str]]:
        found = []
        with sync_sdk(url) as client:
            for wrong in ({"model": "unknown"}, {"max_tokens": 1_000_000}, {"temperature": -1}):
                asked: Any = {"model": "tiny", "messages": MESSAGES, "stream": stream, **wrong}
                with pytest.raises(openai.APIStatusError) as raised:
                    client.chat.completions.create(**asked)
                error = raised.value
                found.append((type(error), error.status_code, error.code, error.message))
        return found

    through = served.runner.run(asyncio.to_thread(provoke, served.sluice.url))
    assert through == provoke(served.engine.url)
    assert through[0][0] is openai.NotFoundError
    assert through[1][0] is openai.BadRequestError


def test_the_headers_that_say_what_happened_here(served: Served) -> None:
    def chat(client: openai.OpenAI) -> Any:  # noqa: ANN401 - the SDK's own type
        return client.chat.completions.with_raw_response.create(
            model="tiny",
            messages=MESSAGES,
            max_tokens=4,
            extra_headers={"x-request-id": "of-the-app"},
        )

    raw = served.sync(chat)
    assert raw.request_id == "of-the-app"
    assert raw.headers["server-timing"].startswith("queue;dur=")


def test_a_crowd_is_served_in_turns_and_the_engine_queues_nothing(served: Served) -> None:
    """The point of it all: 14 requests for 7 seats; those that wait, wait here.

    A request that has just come waits in the engine too, for the step that takes it up.
    """
    inside: list[tuple[int, int]] = []

    async def scenario(client: openai.AsyncOpenAI) -> list[Any]:
        asked: Any = {
            "model": "tiny",
            "messages": MESSAGES,
            "max_tokens": 200,
            "extra_body": {"ignore_eos": True},
        }
        asking = [asyncio.create_task(client.chat.completions.create(**asked)) for _ in range(14)]
        await served.sluice.until_metric("sluice_queue_depth", 7)
        while not all(task.done() for task in asking):
            inside.append(await asyncio.to_thread(running_and_waiting, served.engine))
        return await asyncio.gather(*asking)

    answers = served.asynchronous(scenario)
    assert len(answers) == 14
    assert max(running + waiting for running, waiting in inside) == 7
    assert statistics.median(waiting for _running, waiting in inside) == 0


def running_and_waiting(engine: EngineProcess) -> tuple[int, int]:
    """Both at one moment."""
    values = {
        sample.name: int(sample.value)
        for family in text_string_to_metric_families(engine.metrics_page())
        for sample in family.samples
    }
    return values["vllm:num_requests_running"], values["vllm:num_requests_waiting"]


def test_leaving_a_stream_aborts_it_in_the_engine(served: Served) -> None:
    """R01, R118: `break` in the application's loop is all it takes."""
    before = served.engine.aborted

    def leave(client: openai.OpenAI) -> None:
        with client.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=1500, stream=True
        ) as events:
            for number, _event in enumerate(events):
                if number == 3:
                    break

    served.sync(leave)

    wait_until(lambda: served.engine.aborted == before + 1, "an abort", within_s=1.0)


def test_an_engine_with_a_key_is_reached_without_the_client_knowing_it(
    simulated_vllm_with_key: EngineProcess,
) -> None:
    """R46, R47: the application's key is the gateway's business, the engine's key is ours."""
    engine = simulated_vllm_with_key

    async def scenario() -> None:
        settings = {
            "max_num_seqs": engine.max_num_seqs,
            "upstream_api_key": engine.api_key,
            "api_keys": "app:sk-of-the-app",
        }
        async with gateway(engine.url, **settings) as sluice:
            async with async_sdk(sluice.url, "sk-of-the-app") as client:
                answer = await client.embeddings.create(model="tiny", input="x")
                assert answer.data
                assert [model.id async for model in client.models.list()] == ["tiny"]
            async with async_sdk(sluice.url, engine.api_key or "") as client:
                with pytest.raises(openai.AuthenticationError) as raised:
                    await client.models.list()
                assert raised.value.code == "invalid_api_key"

    asyncio.run(scenario())


# What the SDK makes of trouble.


@dataclass
class Attempts:
    """Each answer that the SDK got: when, and what it was told."""

    at_s: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    retry_after_s: list[float] = field(default_factory=list)

    async def note(self, response: Any) -> None:  # noqa: ANN401 - of the SDK's HTTP library
        self.at_s.append(time.monotonic())
        self.statuses.append(response.status_code)
        self.retry_after_s.append(int(response.headers.get("retry-after-ms", 0)) / 1000)

    def client(self, url: str, max_retries: int) -> openai.AsyncOpenAI:
        noting = openai.DefaultAsyncHttpxClient(
            trust_env=False, event_hooks={"response": [self.note]}
        )
        return openai.AsyncOpenAI(
            api_key="sk-x", base_url=f"{url}/v1", http_client=noting, max_retries=max_retries
        )


async def chat_with(client: openai.AsyncOpenAI, **more: Any) -> Any:  # noqa: ANN401 - the SDK's own types
    return await client.chat.completions.create(model="tiny", messages=MESSAGES, **more)


@pytest.mark.slow
@pytest.mark.timeout(40)
def test_under_overload_the_sdk_waits_as_told_and_then_raises_the_right_class() -> None:
    """R59: three attempts, each after the time that the refusal before it named."""
    attempts = Attempts()

    async def scenario() -> None:
        async with (
            ScriptedUpstream(json_answer(CHAT_ANSWER)) as upstream,
            gateway(upstream.url, max_in_flight=1, max_queue_depth=0) as sluice,
            attempts.client(sluice.url, max_retries=2) as client,
            await RawClient.connect(sluice.port) as running,
        ):
            # One that was served, so that the expected wait is known to be short.
            await ask_once(sluice.port, request_bytes())
            upstream.handler = Hold()
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            with pytest.raises(openai.InternalServerError) as raised:
                await chat_with(client)
            assert (raised.value.code, raised.value.type) == (
                "queue_full",
                "service_unavailable_error",
            )
            assert await sluice.metric("sluice_arrivals_total", attempt="retry") == 2
            assert len(upstream.seen) == 2

    asyncio.run(scenario())
    assert attempts.statuses == [503, 503, 503]
    for number in range(2):
        waited_s = attempts.at_s[number + 1] - attempts.at_s[number]
        assert attempts.retry_after_s[number] <= waited_s < attempts.retry_after_s[number] + 1


@pytest.mark.timeout(40)
def test_a_retry_that_finds_room_is_served_and_the_application_never_knows() -> None:
    """R59"""
    attempts = Attempts()

    async def scenario() -> None:
        hold = Hold(then=json_answer(CHAT_ANSWER))
        async with (
            ScriptedUpstream(json_answer(CHAT_ANSWER)) as upstream,
            gateway(upstream.url, max_in_flight=1, max_queue_depth=0) as sluice,
            attempts.client(sluice.url, max_retries=2) as client,
            await RawClient.connect(sluice.port) as running,
        ):
            await ask_once(sluice.port, request_bytes())
            upstream.handler = hold
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            asking = asyncio.create_task(chat_with(client))
            await sluice.until_metric("sluice_shed_total", 1)
            hold.release()
            assert (await asking).choices[0].message.content == "hello"

    asyncio.run(scenario())
    assert attempts.statuses == [503, 200]


def test_an_engine_that_is_down_is_asked_for_once() -> None:
    """The SDK obeys x-should-retry: false, and does not hammer what cannot work."""
    attempts = Attempts()

    async def scenario() -> None:
        async with ScriptedUpstream() as upstream, gateway(upstream.url, max_in_flight=1) as sluice:
            upstream.probes = {b"/health": json_answer(status=503)}
            await sluice.until_metric("sluice_upstream_up", 0)
            async with attempts.client(sluice.url, max_retries=2) as client:
                with pytest.raises(openai.InternalServerError) as raised:
                    await chat_with(client)
            assert raised.value.code == "upstream_unavailable"

    asyncio.run(scenario())
    assert attempts.statuses == [503]


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=1) as stand:
        yield stand


@on_the_stand
async def test_a_stream_that_breaks_raises_and_is_not_taken_for_finished(stand: Stand) -> None:
    """R17: the error event reaches the application as an exception with our code."""

    async def breaks(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.chunk(b'data: {"id":"a","object":"chat.completion.chunk","choices":[]}\n\n')
        await asyncio.sleep(0.02)
        exchange.reset()

    stand.upstream.handler = breaks
    async with async_sdk(stand.sluice.url) as client:
        events = await chat_with(client, stream=True)
        assert (await anext(events)).id == "a"
        with pytest.raises(openai.APIError) as raised:
            await anext(events)
    assert raised.value.code == "upstream_closed"


@on_the_stand
async def test_a_plain_answer_that_breaks_raises_too(stand: Stand) -> None:
    """R17"""

    async def breaks(exchange: Exchange) -> None:
        exchange.start_chunked(content_type="application/json")
        exchange.chunk(b'{"id": ')
        await asyncio.sleep(0.02)
        exchange.reset()

    stand.upstream.handler = breaks
    async with async_sdk(stand.sluice.url) as client:
        with pytest.raises(openai.APIConnectionError):
            await chat_with(client)
    assert len(stand.upstream.seen) == 1


@on_the_stand
async def test_a_client_timeout_ends_the_work_in_the_engine(stand: Stand) -> None:
    """R02: the SDK gives up after its own timeout, and so does the engine."""
    stand.upstream.handler = silent
    async with async_sdk(stand.sluice.url, timeout=0.5) as client:
        with pytest.raises(openai.APITimeoutError):
            await chat_with(client)
        await stand.upstream.until(lambda: stand.upstream.aborts == 1, within_s=1)
    assert stand.upstream.inflight == 0


def test_a_client_timeout_bounds_the_wait_in_the_queue() -> None:
    """R70: the SDK says how long it will read; waiting longer would only lose the answer.

    Whether the refusal or the SDK's own timeout comes first is the network's to say.
    """

    async def scenario() -> None:
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, max_in_flight=1, queue_timeout=30) as sluice,
            async_sdk(sluice.url, timeout=0.6) as client,
            await RawClient.connect(sluice.port) as running,
        ):
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            with pytest.raises((openai.InternalServerError, openai.APITimeoutError)):
                await chat_with(client)
            await sluice.until_metric("sluice_queue_depth", 0, within_s=1)
            assert len(upstream.seen) == 1

    asyncio.run(scenario())
