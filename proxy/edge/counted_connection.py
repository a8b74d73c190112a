"""A client's connection that a ConnectionCap admits, or that is told that it is one too many."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from proxy.admission.retry_after import draw_retry_after
from proxy.edge import error_table
from proxy.edge.answers import CLOSE, send_answer_and_linger
from proxy.edge.client_connection import CONNECTION_EXTENSION
from proxy.edge.connection import SluiceProtocol
from proxy.edge.connection_cap import Bound
from proxy.edge.gateway import LOCAL_PATHS
from proxy.edge.request_headers import new_request_id

if TYPE_CHECKING:
    import random

    from proxy.edge.answers import OwnAnswer
    from proxy.edge.connection_cap import Arrival, ConnectionCap
    from proxy.edge.rate_limited_log import RateLimitedLog

# For one that is over a bound: to ask, and then to read what it is told.
_ANSWERED_WITHIN_S: Final = 2.0


class CountedProtocol(SluiceProtocol):
    """Costs nothing but where a connection comes and where it ends."""

    __slots__ = ("_arrival", "_cap", "_refusals", "_rng")

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - as uvicorn calls it
        cap: ConnectionCap,
        refusals: RateLimitedLog,
        rng: random.Random,
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> None:
        super().__init__(*args, **kwargs)
        self._cap = cap
        self._refusals = refusals
        self._rng = rng

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        host = self.client[0] if self.client else None
        self._arrival: Arrival = self._cap.admit(host)
        over = self._arrival.over
        if over is None:
            return
        self._write_down(over, host or "a local socket")
        if self._arrival.is_answered:
            self._turn_away(over)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cap.release(self._arrival)

    @property
    def resting_since(self) -> float | None:
        """When it began to ask for nothing; None while it is at work, or if it is over a bound."""
        if self._arrival.over is not None or self.transport.is_closing():
            return None
        if self.cycle is None:
            return None if self._head_bytes else self.reading_since
        return self._idle_since if self._is_answered and self.reading_since is None else None

    def _write_down(self, over: Bound, host: str) -> None:
        if over is Bound.PER_ADDRESS:
            there_are = f"{self._cap.max_per_address} from there"
        else:
            there_are = f"{self._cap.max_connections}"
        self._refusals.warning(
            f"a connection from {host} is refused: there are {there_are}, as many as there may be",
            f"connections were refused, the last from {host}",
        )

    def _turn_away(self, over: Bound) -> None:
        retry_after = draw_retry_after(math.inf, self._rng)
        answer = error_table.too_many_connections(over, self._cap, retry_after)
        self.app = _TurnedAway(self.app, answer)
        self._enter = None

    def _end_slow_request(self, arriving_for_s: float, limit_s: float) -> None:
        if self._arrival.over is not None:
            limit_s = min(limit_s, _ANSWERED_WITHIN_S)
        super()._end_slow_request(arriving_for_s, limit_s)


class _TurnedAway:
    """Answers the one request of a connection that is over a bound. Probes are answered as ever: a
    gateway with many clients is alive."""

    def __init__(self, app: Any, answer: OwnAnswer) -> None:  # noqa: ANN401 - as above
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as above
        if scope["raw_path"] in LOCAL_PATHS:
            await self._app(scope, receive, _closing(send))
            return
        headers = [(b"x-request-id", new_request_id()), CLOSE]
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                await send_answer_and_linger(send, receive, self._answer, headers)
        except TimeoutError:
            scope["extensions"][CONNECTION_EXTENSION].close()


def _closing(send: Any) -> Any:  # noqa: ANN401 - as above
    async def closing(message: Any) -> None:  # noqa: ANN401 - as above
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], CLOSE]}
        await send(message)

    return closing
