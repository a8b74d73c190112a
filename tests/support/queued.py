"""What a discipline sees of a waiter, without a loop, a future or a gate."""

from __future__ import annotations

import math

from proxy.admission.request import AdmissionRequest, Priority


class QueuedStub:
    """`name` is what tests call it; two with the same name are still two."""

    def __init__(
        self,
        name: str = "",
        *,
        tenant: str = "",
        priority: Priority = Priority.NORMAL,
        width: int = 1,
    ) -> None:
        self.name = name
        self.request = AdmissionRequest(width, math.inf, tenant=tenant, priority=priority)
        self.width = width

    def __repr__(self) -> str:
        return f"<{self.name} of {self.request.tenant}, {self.request.priority.name}>"
