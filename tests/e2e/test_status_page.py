"""/status in a real browser: it loads, moves under load, shows a drain and survives a restart."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.support.browser import visit
from tests.support.engine_process import free_port
from tests.support.gateway_process import gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WITHIN_MS = 8000


@contextlib.asynccontextmanager
async def clients(port: int, count: int) -> AsyncIterator[None]:
    """So many at once; on leaving all have their answers."""
    asking = [asyncio.create_task(ask_once(port, request_bytes())) for _ in range(count)]
    try:
        yield
    finally:
        await asyncio.gather(*asking)


def test_it_moves_under_load_and_asks_nobody_but_the_gateway() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, max_in_flight=2, max_queue_depth=1) as sluice,
            visit(f"{sluice.admin_url}/status") as visited,
        ):
            page = visited.page
            verdict = page.get_by_role("status")
            await expect(verdict).to_have_text("0 of 2 seats are taken, nobody waits.")
            async with clients(sluice.port, 5):
                await expect(verdict).to_contain_text("2 of 2 seats", timeout=WITHIN_MS)
                refusals = page.get_by_role("region", name="Last refusals")
                await expect(refusals).to_contain_text("queue_full")
                engines = page.get_by_role("region", name="Engines")
                await expect(engines).to_contain_text("2 of 2")
                chart = page.get_by_role("img", name=re.compile("seats taken: now 2"))
                await expect(chart).to_be_visible()
                hold.release()
            await expect(page.locator(".tile").first).to_contain_text("0 of 2")
            assert visited.complaints == []
            assert all(url.startswith(sluice.admin_url) for url in visited.asked), visited.asked

    asyncio.run(scenario())


def test_it_shows_a_drain_and_goes_on_with_the_next_gateway() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with ScriptedUpstream(hold) as upstream:
            async with gateway(upstream.url, max_in_flight=2) as sluice:
                port = sluice.admin_port
                browser = visit(f"{sluice.admin_url}/status")
                visited = await browser.__aenter__()
                verdict = visited.page.get_by_role("status")
                await expect(verdict).to_contain_text("nobody waits")
                async with clients(sluice.port, 1):
                    await sluice.until_metric("sluice_in_flight", 1)
                    sluice.terminate()
                    await expect(verdict).to_contain_text("Draining", timeout=WITHIN_MS)
                    hold.release()
                await asyncio.wait_for(sluice.process.wait(), 10)
            assert sluice.exit_code == 0, "an open page does not keep the gateway"
            await expect(verdict).to_contain_text("does not answer", timeout=WITHIN_MS)
            async with gateway(upstream.url, max_in_flight=3, admin_port=port):
                await expect(verdict).to_contain_text("0 of 3 seats", timeout=WITHIN_MS)
                await browser.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_it_says_why_there_is_no_seat_where_the_store_of_the_limit_is_not_reached() -> None:
    async def scenario() -> None:
        nobody = f"redis://127.0.0.1:{free_port()}"
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url, max_in_flight=2, redis_url=nobody, wait_until_ready=False
            ) as sluice,
            visit(f"{sluice.admin_url}/status") as visited,
        ):
            verdict = visited.page.get_by_role("status")
            await expect(verdict).to_contain_text("There is no seat to give out. The store")
            await expect(verdict).to_contain_text("Error 111")
            await expect(verdict).to_have_attribute("data-level", "bad")

    asyncio.run(scenario())


def test_it_fits_a_phone_in_the_dark() -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=2) as sluice,
            visit(f"{sluice.admin_url}/status", width=390, scheme="dark") as visited,
        ):
            page = visited.page
            await expect(page.get_by_role("status")).to_contain_text("seats")
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390
            back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert back == "rgb(17, 20, 26)"

    asyncio.run(scenario())
