"""A gateway in front of a scripted engine that stays up for a module's tests.

    @pytest.fixture(scope="module")
    def stand() -> Iterator[Stand]:
        with standing(max_in_flight=2, max_queue_depth=4) as stand:
            yield stand

    @on_the_stand
    async def test_something(stand: Stand) -> None:
        stand.upstream.handler = silent
        async with await stand.client() as client:
            client.send(stand.request())

Starting a gateway costs more than most cases do. Every test begins with an idle gateway and fresh
counts, and after every test the capacity probe runs. After a test that failed all is started anew.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream, json_answer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from typing import Any, Concatenate

P = ParamSpec("P")


@dataclass
class Stand:
    """`sluice` and `upstream` of the running test. `headers` go with every request."""

    runner: asyncio.Runner
    settings: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)

    sluice: GatewayProcess = field(init=False)
    upstream: ScriptedUpstream = field(init=False)
    _open: AsyncExitStack | None = field(default=None, init=False)
    _outcomes_before: Counter[str] = field(init=False)

    @property
    def seats(self) -> int:
        return int(str(self.settings["max_in_flight"]))

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Runs a test's scenario, and the capacity probe after it."""
        try:
            self.runner.run(self._run(scenario))
        except BaseException:  # also a timeout, which ends the loop and leaves the scenario hanging
            self.close()
            raise

    def close(self) -> None:
        self.runner.run(self._close())

    async def outcomes(self) -> Counter[str]:
        """How many requests of this test ended how. Waits until none runs."""
        await self.sluice.until_idle()
        return await self.sluice.outcomes() - self._outcomes_before

    def request(
        self,
        target: str = "/v1/completions",
        body: bytes | dict[str, object] = b"{}",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        *,
        client_id: str | None = None,
    ) -> bytes:
        tag = {} if client_id is None else {"x-client-id": client_id}
        return request_bytes(target, body, method, {**self.headers, **tag, **(headers or {})})

    async def client(self) -> RawClient:
        return await RawClient.connect(self.sluice.port)

    async def _run(self, scenario: Coroutine[Any, Any, None]) -> None:
        if self._open is None:
            await self._start()
        self.upstream.forget()
        self.upstream.handler = json_answer()
        self._outcomes_before = await self.sluice.outcomes()
        await scenario
        await probe_capacity(self.sluice, self.upstream, self.seats, self.headers)

    async def _start(self) -> None:
        self._open = AsyncExitStack()
        self.upstream = await self._open.enter_async_context(ScriptedUpstream(behind_gateway=True))
        starting = gateway(self.upstream.url, **self.settings)
        self.sluice = await self._open.enter_async_context(starting)

    async def _close(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            # A generator that the loop is closing is a task too, and has no name.
            if getattr(task.get_coro(), "__qualname__", "").startswith("Stand._run"):
                task.cancel()
        opened, self._open = self._open, None
        if opened is not None:
            await opened.aclose()


@contextmanager
def standing(headers: Mapping[str, str] | None = None, **settings: object) -> Iterator[Stand]:
    """`settings` as for gateway(); `max_in_flight` must be among them."""
    with asyncio.Runner() as runner:
        stand = Stand(runner, settings, headers or {})
        try:
            yield stand
        finally:
            stand.close()


def on_the_stand(
    test: Callable[Concatenate[Stand, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Stand, P], None]:
    """Makes a plain test of a coroutine function whose first argument is the stand."""

    @functools.wraps(test)
    def run(stand: Stand, *args: P.args, **kwargs: P.kwargs) -> None:
        stand.run(test(stand, *args, **kwargs))

    return run
