from __future__ import annotations

import asyncio
import json
import re

import httpx
from fastapi import FastAPI

from proxy.edge.status.router import status_router
from tests.support.asgi_transport import AsgiClient
from tests.support.status_facts import status_facts
from tests.support.virtual_time import run


def client(is_over: bool = True) -> httpx.AsyncClient:
    app = FastAPI()
    told = status_facts()
    told.sample()
    app.include_router(status_router(told, lambda: is_over))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://admin")


def test_the_page_fetches_nothing_from_elsewhere() -> None:
    async def scenario() -> None:
        async with client() as admin:
            page = await admin.get("/status")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page.text)
        assert set(re.findall(r"https?://[^\"'\s]+", page.text)) == {"http://www.w3.org/2000/svg"}

    asyncio.run(scenario())


def test_the_object_has_all_that_the_page_shows() -> None:
    async def scenario() -> None:
        async with client() as admin:
            told = (await admin.get("/status.json")).json()
        assert {"admission", "engines", "binding_limit", "last_refusals", "history"} <= told.keys()

    asyncio.run(scenario())


def test_events_begin_with_the_history_and_end_with_the_gateway() -> None:
    async def scenario() -> None:
        async with client(is_over=True) as admin:
            events = await admin.get("/status/events")
        assert events.headers["content-type"].startswith("text/event-stream")
        names = re.findall(r"^event: (\w+)$", events.text, re.MULTILINE)
        assert names == ["history", "now"]
        data = [json.loads(line) for line in re.findall(r"^data: (.*)$", events.text, re.MULTILINE)]
        assert data[0]["in_flight"] == [3]
        assert data[1]["admission"]["in_flight"] == 3

    run(scenario())


def test_who_listens_at_one_time_gets_what_was_made_once() -> None:
    async def scenario() -> None:
        made = 0

        def binding_limit() -> None:
            nonlocal made
            made += 1

        app = FastAPI()
        over = False
        told = status_facts(binding_limit=binding_limit)
        app.include_router(status_router(told, lambda: over))
        listeners = [AsgiClient(app).start("GET", b"/status/events") for _ in range(20)]
        await asyncio.sleep(2.5)
        assert made == 3
        over = True
        pages = await asyncio.gather(*(one.response() for one in listeners))
        assert {page.body.count(b"event: now") for page in pages} == {4}

    run(scenario())
