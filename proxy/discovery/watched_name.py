"""A host name that is looked up again and again, and the engines that it stands for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.discovery.expansion import engines_behind, one_family
from proxy.discovery.in_words import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.discovery.resolver import Resolver
    from proxy.upstream.address import UpstreamAddress

_log = logging.getLogger("sluice.discovery")

# So long a start may be held up. Name servers that are asked in vain take longer.
_FIRST_LOOK_S = 5.0


class WatchedName:
    """`engines` is empty before start(). `changed` is called when they change after it. A lookup
    that fails, or finds nothing, changes nothing.

    `by_address`: one that is alone has its address in its name, too; and while the address is not
    known there is none, for others may know it.
    """

    def __init__(
        self,
        address: UpstreamAddress,
        resolver: Resolver,
        interval_s: float,
        changed: Callable[[], None],
        *,
        by_address: bool = False,
    ) -> None:
        self._by_address = by_address
        self.engines: tuple[UpstreamAddress, ...] = ()
        self._address = address
        self._resolver = resolver
        self._interval_s = interval_s
        self._changed = changed
        self._trouble: str | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the name has been looked up, or could not be within 5 s. In that case it is
        one engine, whose address is looked up by whoever connects to it."""
        try:
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self._look()
        except TimeoutError:
            self._failed(f"no answer within {_FIRST_LOOK_S:g} s")
        if not (self.engines or self._by_address):
            self.engines = (self._address,)
        self._task = asyncio.create_task(self._watch(), name=f"look up {self._address.host}")

    async def stop(self) -> None:
        """Leaves no task behind; harmless when there is none."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                if await self._look():
                    self._changed()
            except Exception:  # noqa: BLE001 - a defect here must not end the watch
                _log.exception("%s: looking it up failed", self._address)

    async def _look(self) -> bool:
        """Whether that changed anything."""
        try:
            ips = one_family(await self._resolver.addresses(self._address.host))
        except OSError as error:
            self._failed(error.strerror or str(error) or type(error).__name__)
            return False
        if not ips:
            self._failed("it has no address")
            return False
        if self._trouble is not None:
            self._trouble = None
            _log.info("%s: its host can be looked up again", self._address)
        return self._found(ips)

    def _found(self, ips: list[str]) -> bool:
        engines = engines_behind(self._address, ips, self.engines, by_address=self._by_address)
        if engines == self.engines:
            return False
        self.engines = engines
        if len(ips) == 1:
            _log.info("%s is one engine, at %s", self._address, ips[0])
        else:
            _log.info(
                "%s is %d engines, for its host has the addresses %s; the limit is for each of "
                "them (SLUICE_DNS_INTERVAL=0: one engine, whatever its addresses)",
                self._address,
                len(ips),
                listed(ips),
            )
        return True

    def _failed(self, trouble: str) -> None:
        """Says so once, until it is another trouble."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        unknown = "no engine" if self._by_address else "its name"
        known = listed(engine.ip or unknown for engine in self.engines)
        _log.warning(
            "%s: its host cannot be looked up (%s); going on with %s",
            self._address,
            trouble,
            known or unknown,
        )
