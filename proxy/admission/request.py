"""What the core needs to know about a request, and nothing else."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Priority(enum.IntEnum):
    """Lower value goes first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One request for seats in an engine.

    `deadline` is a moment on the controller's clock (seconds): past it the request must not
    be waiting any more. `seats` counts sequences. `prompt_tokens` and `kv_tokens` are estimates,
    0 when nobody estimated. `attempt` is 0 for a first try, 1 and up for retries. `model` is what
    it asks for, if it says; `affinity` is the same number for requests that are best served by the
    same upstream. `readmitted`: it was admitted before, and has come back unserved.
    """

    seats: int
    deadline: float
    prompt_tokens: int = 0
    kv_tokens: int = 0
    tenant: str = ""
    priority: Priority = Priority.NORMAL
    attempt: int = 0
    model: str | None = None
    affinity: int | None = None
    readmitted: bool = False

    def __post_init__(self) -> None:
        if self.seats < 1:
            raise ValueError(f"a request takes at least one seat, not {self.seats}")
