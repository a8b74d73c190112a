"""A gateway in front of an engine that serves, real or simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.engine_process import EngineProcess


@dataclass(frozen=True)
class Site:
    url: str
    engine: EngineProcess
