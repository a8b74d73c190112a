"""An engine as the gateway uses it: where it is, how to talk to it, how it is doing."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.errors import UpstreamError
    from proxy.upstream.port import Upstream


@dataclass(frozen=True, slots=True)
class EngineState:
    """What is known of an engine's health. `up` is None until it has answered once.

    `ready` is what /readyz says; an engine that refuses our key is up, but not ready. `reason`
    says in words why it is not ready.
    """

    up: bool | None
    ready: bool
    reason: str


class LifeSign:
    """Bytes of answers come from the engine. `seen` is set with each piece, which may cost no more
    than that."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = False

    def take(self) -> bool:
        """Whether there was one since the last call."""
        seen, self.seen = self.seen, False
        return seen


class OpenRequests:
    """How many requests that take no seat are at the engine now."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """For as long as it is there."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


@dataclass(frozen=True, slots=True)
class Engine:
    """`authorization` replaces the client's at the engine; None lets the client's pass.

    `report` is told what came of each gated exchange: None if it went well, else what failed; a
    status of the engine's own that says so is one as well.
    """

    name: str
    address: UpstreamAddress
    upstream: Upstream
    authorization: bytes | None
    state: Callable[[], EngineState]
    report: Callable[[UpstreamError | int | None], None] = lambda _: None
    life_sign: LifeSign = field(default_factory=LifeSign)
    open_requests: OpenRequests = field(default_factory=OpenRequests)
