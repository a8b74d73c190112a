"""What the backend of Open WebUI sends, as its source (backend/open_webui/routers/openai.py, read
in December 2026) has it: through aiohttp, as `data=json.dumps(...)`, with headers about the user.

It has no retries and shows its users the `message` of an error, so that is what matters here.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.stage import APP_KEY, STARTING_TIMEOUT_S
from tests.support.raw_client import RawClient, ask_once, request_bytes

if TYPE_CHECKING:
    from tests.interop.site import Site
    from tests.interop.stage import LoopThread, Stage
    from tests.support.raw_client import RawAnswer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(STARTING_TIMEOUT_S)]

HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Python/3.11 aiohttp/3.13.2",
    "Authorization": f"Bearer {APP_KEY}",
    "X-OpenWebUI-User-Name": "%C3%84nne%20M.",
    "X-OpenWebUI-User-Id": "7a5b1bd4-1f1f-4a5e-9d0e-0b3e4c2f7a11",
    "X-OpenWebUI-User-Email": "a@example.com",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "b6a3c0de-0000-4000-8000-000000000001",
    "Cookie": "token=abc",
}
USER = {"role": "user", "content": "hello there"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "hello there"}]}
CACHED = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}

CHATS: dict[str, dict[str, Any]] = {
    "a chat": {"stream": True, "stream_options": {"include_usage": True}, "messages": [USER]},
    "a chat in parts": {"stream": True, "messages": [PARTS]},
    "with its own extras": {
        "stream": False,
        "messages": [{"role": "system", "content": "Be brief."}, {**PARTS, "content": [CACHED]}],
        "temperature": 0.7,
        "reasoning": {"effort": "low"},
        "logit_bias": {"5": -100},
        "chat_id": "b6a3c0de",
    },
    "a title": {"stream": False, "messages": [USER], "max_completion_tokens": 16},
}


def send(
    loop_thread: LoopThread, url: str, path: str, body: object = None, **headers: str
) -> RawAnswer:
    raw = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    asked = request_bytes(f"/v1/{path}", raw, method, {**HEADERS, **headers})
    return loop_thread.run(ask_once(int(url.rpartition(":")[2]), asked))


@pytest.mark.parametrize("shape", CHATS)
def test_a_chat_of_each_shape_is_served(site: Site, loop_thread: LoopThread, shape: str) -> None:
    body = {"model": "tiny", "max_tokens": 8, **CHATS[shape]}
    answer = send(loop_thread, site.url, "chat/completions", body)
    assert (answer.status, answer.complete) == (200, True), answer.body
    if body["stream"]:
        assert answer.body.endswith(b"data: [DONE]\n\n")
        assert (b'"usage":{' in answer.body) == ("stream_options" in body)
    else:
        assert json.loads(answer.body)["choices"]


def test_the_list_of_models_is_there_at_saturation(stage: Stage, loop_thread: LoopThread) -> None:
    """It is asked for before every chat, and a model that is not on it cannot be talked to."""
    answer = send(loop_thread, stage.url("full"), "models")
    assert answer.status == 200
    assert send(loop_thread, stage.url("full"), "chat/completions", {}).status == 503


@pytest.mark.parametrize("state", ["full", "waiting", "down", "draining"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_json_whose_message_can_be_shown(
    stage: Stage, loop_thread: LoopThread, state: str, stream: bool
) -> None:
    """Also for a stream: an error of the type text/event-stream it would wait for without end."""
    body = {"model": "tiny", **CHATS["a chat"], "stream": stream}
    answer = send(loop_thread, stage.url(state), "chat/completions", body)
    assert answer.status == 503
    assert answer.header("content-type") == "application/json"
    assert answer.error["message"]


def test_closing_the_page_aborts_the_chat_in_the_engine(
    site: Site, loop_thread: LoopThread
) -> None:
    body = {"model": "tiny", "max_tokens": 1500, **CHATS["a chat"]}

    async def look_and_leave() -> None:
        port = int(site.url.rpartition(":")[2])
        async with await RawClient.connect(port) as page:
            raw = json.dumps(body).encode()
            page.send(request_bytes("/v1/chat/completions", raw, "POST", HEADERS))
            await page.chunk(await page.head())

    site.is_left_by(lambda: loop_thread.run(asyncio.wait_for(look_and_leave(), 10)))
