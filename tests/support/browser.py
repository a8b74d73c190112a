"""A real Chromium, as Debian builds it, driven through Playwright.

async with page_of("http://127.0.0.1:8081/status") as page:
    await expect(page.locator("#verdict")).to_contain_text("seats")
assert page.complaints == []
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page


@dataclass
class Visit:
    """`complaints`: errors of scripts and of the console. `asked`: the URLs that were fetched."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def visit(
    url: str, *, width: int = 1200, scheme: Literal["light", "dark"] = "light"
) -> AsyncIterator[Visit]:
    """`scheme` is what the person's system is set to. Raises when there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("no chromium on the path: apt-get install chromium")
    async with async_playwright() as playwright:
        # In a container its sandbox has no namespaces to use; the pages are our own.
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            page = await browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page.set_default_timeout(10_000)
            visited = Visit(page)
            page.on("pageerror", lambda error: visited.complaints.append(f"{error}"))
            page.on(
                "console",
                lambda said: visited.complaints.append(said.text) if said.type == "error" else None,
            )
            page.on("request", lambda request: visited.asked.append(request.url))
            await page.goto(url)
            yield visited
        finally:
            await browser.close()
