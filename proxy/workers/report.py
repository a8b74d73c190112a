"""What a worker tells its parent of itself, and how it is written down on the way.

The two are one program, started together: there is no older reader to think of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from proxy.admission.snapshot import (  # noqa: TC001 - msgspec reads the types
    AdmissionSnapshot,
    TenantSnapshot,
)
from proxy.edge.engine import EngineState  # noqa: TC001 - as above
from proxy.telemetry.engine_view import EngineView  # noqa: TC001 - as above
from proxy.telemetry.families import Family  # noqa: TC001 - as above
from proxy.telemetry.sharing_view import SharingView  # noqa: TC001 - as above
from proxy.telemetry.totals import Totals  # noqa: TC001 - as above
from proxy.vllm.binding_limit import BindingLimit  # noqa: TC001 - as above


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """All of one moment. `page` is its metrics; `engines` and `views` are by engine name;
    `refusals` the newest first, as /status.json has them; `running`: requests that were let in and
    have not ended."""

    page: tuple[Family, ...]
    admission: AdmissionSnapshot
    totals: Totals
    engines: dict[str, EngineState]
    views: dict[str, EngineView]
    binding_limit: BindingLimit | None
    tenants: tuple[TenantSnapshot, ...]
    refusals: tuple[dict[str, Any], ...]
    sharing: SharingView | None
    running: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WorkerReport)


def encode(report: WorkerReport) -> bytes:
    return _encoder.encode(report)


def decode(written: bytes) -> WorkerReport:
    """Raises msgspec.ValidationError for anything else."""
    return _decoder.decode(written)
