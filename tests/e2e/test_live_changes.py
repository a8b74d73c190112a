"""Changes while it runs, as curl asks for them and a browser shows them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.support.browser import visit
from tests.support.gateway_process import gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream

if TYPE_CHECKING:
    from tests.support.gateway_process import GatewayProcess
    from tests.support.raw_client import RawAnswer

TOKEN = "the-token-of-an-operator"


async def admin(
    sluice: GatewayProcess, method: str, path: str, body: object, token: str = TOKEN
) -> RawAnswer:
    content = json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer {token}\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return await ask_once(sluice.admin_port, head.encode() + content)


def ask(sluice: GatewayProcess) -> asyncio.Task[RawAnswer]:
    return asyncio.create_task(ask_once(sluice.port, request_bytes()))


def test_a_limit_a_drain_and_what_people_see_of_it() -> None:
    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold) as upstream,
            gateway(upstream.url, max_in_flight=3, max_num_seqs=8, admin_token=TOKEN) as sluice,
            visit(f"{sluice.admin_url}/status") as visited,
        ):
            running = [ask(sluice) for _ in range(3)]
            await sluice.until_metric("sluice_in_flight", 3)

            wrong = await admin(sluice, "PATCH", "/admin/settings", {"max_in_flight": 1}, "x")
            assert wrong.status == 401
            too_many = await admin(sluice, "PATCH", "/admin/settings", {"max_in_flight": 8})
            assert too_many.status == 400
            assert b"must be below SLUICE_MAX_NUM_SEQS=8" in too_many.body

            changed = await admin(sluice, "PATCH", "/admin/settings", {"max_in_flight": 1})
            assert json.loads(changed.body)["max_in_flight"]["now"] == 1
            assert await sluice.metric("sluice_concurrency_limit") == 1
            assert await sluice.metric("sluice_in_flight") == 3, "nothing that runs is dropped"
            told = visited.page.locator("#changed")
            await expect(told).to_contain_text("SLUICE_MAX_IN_FLIGHT 3 → 1")

            running.append(ask(sluice))
            await sluice.until_metric("sluice_queue_depth", 1)
            hold.release()
            assert [answer.status for answer in await asyncio.gather(*running)] == [200] * 4

            assert (await admin(sluice, "PUT", "/admin/drain", {"draining": True})).status == 200
            await expect(visited.page.get_by_role("status")).to_contain_text("Draining")
            assert (await ask_once(sluice.port, request_bytes())).status == 503
            assert (await admin(sluice, "PUT", "/admin/drain", {"draining": False})).status == 200
            assert (await ask_once(sluice.port, request_bytes())).status == 200
            await expect(visited.page.get_by_role("status")).to_contain_text("0 of 1 seats")
            assert visited.complaints == []

            log = "".join(sluice.log)
            assert "SLUICE_MAX_IN_FLIGHT 3 -> 1" in log
            assert "127.0.0.1:" in log
            assert TOKEN not in log
        assert sluice.exit_code == 0

    asyncio.run(scenario())
