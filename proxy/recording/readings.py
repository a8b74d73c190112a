"""What one sample of a recording holds. None: nobody told, which is never the same as 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from proxy.vllm.gateway_page import GatewayMetrics
from proxy.vllm.metrics_page import EngineMetrics


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One card. Bytes; `utilization` from 0 to 1."""

    index: int
    name: str | None = None
    used: int | None = None
    total: int | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything at one moment, in seconds since 1970. `engine_up` None: there is none to ask."""

    unix_time_s: float
    gpus: tuple[GpuReading, ...] = ()
    engine_up: bool | None = None
    engine: EngineMetrics = field(default_factory=EngineMetrics)
    gateway: GatewayMetrics = field(default_factory=GatewayMetrics)

    @property
    def tells_anything(self) -> bool:
        return bool(self.gpus or self.engine_up) or self.gateway != GatewayMetrics()


class GpuSource(Protocol):
    """Where cards are read. Never raises: a card that cannot be read tells nothing."""

    async def read(self) -> tuple[GpuReading, ...]: ...
