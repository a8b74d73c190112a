"""What every route works with: the options, the engine, and the small facts of an answer."""

from __future__ import annotations

import random
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.errors import engine_dead, model_not_found, queue_full
from proxy.simulator.log_lines import VLLM_VERSION
from proxy.simulator.simulated_engine import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.simulator.exchange import Exchange
    from proxy.simulator.options import SimulatorOptions
    from proxy.simulator.simulated_engine import SimulatedEngine


@dataclass(slots=True)
class Service:
    """`wall_clock` gives seconds since 1970, for the `created` fields only."""

    options: SimulatorOptions
    engine: SimulatedEngine
    wall_clock: Callable[[], float] = time.time
    load: int = 0
    """Requests in the server, as /load tells them."""
    _dice: random.Random = field(init=False)
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.options.seed)
        digest = zlib.crc32(self.options.served_model_name.encode())
        self.fingerprint = f"vllm-{VLLM_VERSION}-{digest:08x}"

    @property
    def model(self) -> str:
        return self.options.served_model_name

    def created(self) -> int:
        return int(self.wall_clock())

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{self._dice.getrandbits(64):016x}"

    def request_id(self, prefix: str, exchange: Exchange) -> str:
        """The client's own id, if it sent one."""
        sent = exchange.header(b"x-request-id")
        return self.new_id(prefix) if sent is None else prefix + sent

    def check_model(self, asked: str | None) -> None:
        if asked and asked != self.model:
            raise model_not_found(asked, self.model)

    def check_admission(self, sequences: int) -> None:
        """Raises ApiError when the engine is dead, or its queue full."""
        try:
            self.engine.check_admission(sequences)
        except EngineDeadError:
            raise engine_dead() from None
        except QueueFullError:
            raise queue_full() from None
