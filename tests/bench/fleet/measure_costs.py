"""What one renewal of one lease costs a real Redis, and the gateway that asks: the figures in
store_model.py come from here."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.shared_limit.redis_store import RedisStore
from proxy.shared_limit.store import Renewal
from tests.support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_GATEWAYS = (1, 4, 10, 30, 100)
_ENGINES = 50
_SECONDS = 3.0


def measure() -> Iterator[str]:
    """A line for each number of gateways. Needs redis-server."""
    for gateways in _GATEWAYS:
        with tempfile.TemporaryDirectory() as directory:
            server = RedisServer(Path(directory))
            server.start()
            assert server.process is not None
            try:
                store_us, own_us = asyncio.run(_cost(server.url, server.process.pid, gateways))
            finally:
                server.process.terminate()
                server.process.wait()
        yield f"{gateways:4} gateways: store {store_us:4.0f} us, gateway {own_us:4.0f} us a lease"


async def _cost(url: str, pid: int, gateways: int) -> tuple[float, float]:
    names = tuple(f"{n:016x}" for n in range(gateways))
    stores = [RedisStore(url, "costs", name) for name in names]
    for number in range(1, 3):  # all are known, and connected
        for index, store in enumerate(stores):
            await store.renew(_asked(names, index, number))
    store_s, own_s = _cpu_s(pid), time.process_time()
    leases, ends_at = 0, time.perf_counter() + _SECONDS
    while time.perf_counter() < ends_at:
        index = leases // _ENGINES % gateways
        await stores[index].renew(_asked(names, index, 3 + leases))
        leases += _ENGINES
    store_s, own_s = _cpu_s(pid) - store_s, time.process_time() - own_s
    for store in stores:
        await store.aclose()
    return store_s / leases * 1e6, own_s / leases * 1e6


def _asked(names: tuple[str, ...], index: int, number: int) -> dict[str, Renewal]:
    return {
        f"http://engine-{engine:04}.internal:8000": Renewal(
            gateway=names[index],
            seq=number,
            keep=0,
            want=(index + engine + number) % 5,
            widest=1,
            waited_ms=0,
            limit=32,
            known=names,
        )
        for engine in range(_ENGINES)
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
