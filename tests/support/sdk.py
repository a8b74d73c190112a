"""The official `openai` client, pointed at the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY_KEY = "sk-unused"


def async_sdk(url: str, api_key: str = ANY_KEY, **options: object) -> openai.AsyncOpenAI:
    """Does not retry unless `options` say so. `url` has no /v1 at its end."""
    client = openai.DefaultAsyncHttpxClient(trust_env=False)
    chosen = {"max_retries": 0, **options}
    return openai.AsyncOpenAI(api_key=api_key, base_url=f"{url}/v1", http_client=client, **chosen)


def sync_sdk(url: str, api_key: str = ANY_KEY, **options: object) -> openai.OpenAI:
    """As async_sdk; blocks, so it is for tests whose servers run elsewhere."""
    client = openai.DefaultHttpxClient(trust_env=False)
    chosen = {"max_retries": 0, **options}
    return openai.OpenAI(api_key=api_key, base_url=f"{url}/v1", http_client=client, **chosen)


async def sdk_request(
    url: str,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    api_key: str = ANY_KEY,
    headers: Mapping[str, str] | None = None,
) -> object:
    """One request of any kind, through the SDK's own machinery. Raises what the SDK raises."""
    options: dict[str, object] = {"headers": dict(headers or {})}
    async with async_sdk(url, api_key) as client:
        client.base_url = url
        if method == "POST":
            return await client.post(path, cast_to=object, body=body, options=options)
        return await client.get(path, cast_to=object, options=options)
