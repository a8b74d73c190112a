#!/usr/bin/env python3
"""Takes the pictures of /status that the documentation shows, from a gateway under load.

  .venv/bin/python scripts/take_screenshots.py     five minutes; needs Debian's chromium

A simulated engine of 15 seats gets calm traffic of one tenant and bursts of another, both through
the official SDK. The pictures become WebP in the browser itself, which saves a library.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from openai import APIError, AsyncOpenAI
from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SETTINGS = {
    "SLUICE_API_KEYS": "search:key-of-search,batch:key-of-batch",
    "SLUICE_MAX_NUM_SEQS": "16",
    "SLUICE_MAX_IN_FLIGHT": "15",
    "SLUICE_MAX_QUEUE_DEPTH": "10",
    "SLUICE_PORT": "0",
    "SLUICE_ADMIN_PORT": "0",
}
# Requests a second of each tenant, in turn for 30 s and 12 s.
LOADS = {"search": (1.5, 1.5), "batch": (0.5, 12.0)}
TURNS_S = (30.0, 12.0)
WATCHED_S = 288  # ends in a burst
QUALITY = 0.82

TO_WEBP = """async ([png, quality]) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


class View(TypedDict):
    width: int
    height: int
    scheme: Literal["light", "dark"]


VIEWS: dict[str, View] = {
    "status": {"width": 1180, "height": 1000, "scheme": "light"},
    "status-phone": {"width": 390, "height": 760, "scheme": "dark"},
}


@contextlib.asynccontextmanager
async def gateway() -> AsyncIterator[tuple[str, str]]:
    """In front of a simulated engine; gives the URLs of both listeners."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxy", "serve", "--upstream", "sim", "--log-level", "error"),
        env={**os.environ, **SETTINGS},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        said = ""
        while "/metrics" not in said:
            line = await process.stdout.readline() if process.stdout else b""
            if not line:
                raise RuntimeError(f"the gateway did not start: {said}")
            said += line.decode()
        public, admin = re.findall(r"serves (http://\S+)|health: (http://[^/]+)", said)
        yield public[0], admin[1]
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def load(url: str) -> AsyncIterator[None]:
    """The clients of every tenant, until the block ends."""
    began = asyncio.get_running_loop().time()
    tenants = [
        asyncio.create_task(arrive(url, tenant, rates, began)) for tenant, rates in LOADS.items()
    ]
    try:
        yield
    finally:
        for tenant in tenants:
            tenant.cancel()
        await asyncio.wait(tenants)


async def arrive(url: str, tenant: str, rates: tuple[float, float], began: float) -> None:
    clock = asyncio.get_running_loop().time
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=f"key-of-{tenant}", timeout=30) as client,
        asyncio.TaskGroup() as asking,
    ):
        while True:
            calm = (clock() - began) % sum(TURNS_S) < TURNS_S[0]
            await asyncio.sleep(random.expovariate(rates[0] if calm else rates[1]))
            asking.create_task(ask(client))


async def ask(client: AsyncOpenAI) -> None:
    with contextlib.suppress(APIError):
        await client.chat.completions.create(
            model="simulated",
            max_tokens=min(int(random.lognormvariate(4.8, 0.5)), 400),
            messages=[{"role": "user", "content": "Tell me something. " * 60}],
        )


async def shoot(browser: Browser, url: str, view: View, when: Page) -> bytes:
    page = await browser.new_page(
        viewport={"width": view["width"], "height": view["height"]}, color_scheme=view["scheme"]
    )
    await page.goto(url)
    await page.get_by_role("status").filter(has_text="seats").wait_for()
    await asyncio.sleep(2)  # two more events: the charts have their lines
    png = await page.screenshot()
    await page.close()
    written = await when.evaluate(TO_WEBP, [base64.b64encode(png).decode(), QUALITY])
    return base64.b64decode(written)


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    async with gateway() as (public, admin), load(public), async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        await asyncio.sleep(WATCHED_S)
        blank = await browser.new_page()
        for name, view in VIEWS.items():
            picture = await shoot(browser, f"{admin}/status", view, blank)
            (IMAGES / f"{name}.webp").write_bytes(picture)
            print(f"{name}.webp: {len(picture):,} bytes")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
