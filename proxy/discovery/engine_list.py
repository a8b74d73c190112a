"""Which engines there are now, as URLs, a file and name servers say it.

Whatever cannot be read, understood or looked up changes nothing: the last good answer stands.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from proxy.discovery.expansion import is_name
from proxy.discovery.in_words import listed
from proxy.discovery.watched_name import WatchedName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.discovery.resolver import Resolver
    from proxy.discovery.upstreams_file import UpstreamsFile
    from proxy.upstream.address import UpstreamAddress

_log = logging.getLogger("sluice.discovery")

# A change counts at the second look, so it takes twice that at most.
_LOOK_INTERVAL_S = 0.5


class EngineList:
    """`tell` is given all of them, first by start() and then at every change.

    `addresses` are those that are configured, or that the `file` named when it was first read; the
    file is watched from start() on. With a `resolver` a host name is as many engines as it has
    addresses, and is looked up every `dns_interval_s`; `own_host` is this machine's name. With
    `by_address` an engine is called the same by every gateway, whatever it has seen before.
    """

    def __init__(
        self,
        addresses: Iterable[UpstreamAddress],
        tell: Callable[[Sequence[UpstreamAddress]], None],
        *,
        file: UpstreamsFile | None = None,
        resolver: Resolver | None = None,
        dns_interval_s: float = 5.0,
        own_host: str = "",
        by_address: bool = False,
    ) -> None:
        self._by_address = by_address
        self._addresses = tuple(addresses)
        self._tell = tell
        self._told: Sequence[UpstreamAddress] | None = None
        self._file = file
        self._resolver = resolver
        self._dns_interval_s = dns_interval_s
        self._own_host = own_host
        self._names: dict[UpstreamAddress, WatchedName] = {}
        self._has_problem = False
        self._is_started = False
        self._task: asyncio.Task[None] | None = None

    @property
    def engines(self) -> tuple[UpstreamAddress, ...]:
        """Those that are known; before start() the ones behind host names are not."""
        return tuple(engine for address in self._addresses for engine in self._behind(address))

    async def start(self) -> None:
        """Returns when they have been told for the first time."""
        if self._file is not None and not self._addresses:
            self._warn_of_none(self._file)
        await self._take(self._addresses)
        if self._file is not None:
            self._task = asyncio.create_task(self._watch(self._file), name="watch the engines")

    async def stop(self) -> None:
        """Leaves no task behind, wherever start() has come to."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._stop_all(list(self._names))

    def _behind(self, address: UpstreamAddress) -> tuple[UpstreamAddress, ...]:
        name = self._names.get(address)
        if name is not None:
            return name.engines
        return () if self._is_looked_up(address) else (address,)

    def _is_looked_up(self, address: UpstreamAddress) -> bool:
        return self._resolver is not None and is_name(address.host, self._own_host)

    async def _take(self, addresses: tuple[UpstreamAddress, ...]) -> None:
        """Tells of them once the new names among them have been looked up."""
        new = [one for one in addresses if self._is_looked_up(one) and one not in self._names]
        for address in new:
            self._names[address] = self._watched(address)
        await asyncio.gather(*(self._names[address].start() for address in new))
        self._addresses = addresses
        self._is_started = True
        self._tell_if_changed()
        await self._stop_all([name for name in self._names if name not in addresses])

    def _watched(self, address: UpstreamAddress) -> WatchedName:
        if self._resolver is None:
            raise RuntimeError("nobody to look a name up")
        return WatchedName(
            address,
            self._resolver,
            self._dns_interval_s,
            self._tell_if_changed,
            by_address=self._by_address,
        )

    async def _stop_all(self, names: Iterable[UpstreamAddress]) -> None:
        await asyncio.gather(*(self._names.pop(name).stop() for name in names))

    def _tell_if_changed(self) -> None:
        engines = self.engines
        if self._is_started and engines != self._told:
            self._told = engines
            self._tell(engines)

    # The file

    async def _watch(self, file: UpstreamsFile) -> None:
        while True:
            await asyncio.sleep(_LOOK_INTERVAL_S)
            try:
                await self._look(file)
            except Exception:  # noqa: BLE001 - a defect here must not end the watch
                _log.exception("%s: following it failed", file.path)

    async def _look(self, file: UpstreamsFile) -> None:
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, file.look)
        except ValueError as problem:
            self._has_problem = True
            known = listed(self._addresses) or "no engine"
            _log.warning("%s: %s; going on with %s", file.path, problem, known)
            return
        if found is None:
            return
        had_problem, self._has_problem = self._has_problem, False
        if set(found) != set(self._addresses):
            if found:
                _log.info("%s now names %s", file.path, listed(found))
            else:
                self._warn_of_none(file)
            await self._take(found)
        elif had_problem:
            _log.info("%s is good again, and names the same engines", file.path)

    @staticmethod
    def _warn_of_none(file: UpstreamsFile) -> None:
        _log.warning(
            "%s names no engine: until it does, every request is refused (upstream_unavailable)",
            file.path,
        )
