"""The store within one process: the rules themselves, for tests and for simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.shared_limit.lease_rules import renew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.shared_limit.lease_rules import State
    from proxy.shared_limit.store import Granted, Renewal


class MemoryStore:
    """`clock` in seconds. `open_connections` names the gateways that are alive, as far as the store
    can see; None: it cannot."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._states: dict[str, State] = {}
        self._run = 0
        self.open_connections: set[str] | None = set()

    def restart(self, *, loses_memory: bool = True) -> None:
        """As a server that comes back under another run id, with its old data or without."""
        self._run += 1
        if loses_memory:
            self._states.clear()

    def held(self, engine: str) -> dict[str, int]:
        """Seats by gateway."""
        state = self._states.get(engine)
        return {name: one.held for name, one in state.members.items()} if state else {}

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        now, answers = round(self._clock() * 1000), {}
        for engine, renewal in asked.items():
            state = self._states.get(engine)
            self._states[engine], answers[engine] = renew(state, f"{self._run}", renewal, now)
        return answers

    async def connected(self) -> frozenset[str] | None:
        return None if self.open_connections is None else frozenset(self.open_connections)

    async def aclose(self) -> None:
        """Nothing is open."""
