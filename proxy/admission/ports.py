"""What the core asks of the world outside it, and of the policies within."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.admission.account import Account
    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit
    from proxy.admission.request import AdmissionRequest

W = TypeVar("W", bound="Queued")


class AdmissionObserver(Protocol):
    """Hears of every decision in the step that makes it. Must neither raise nor block.

    Each request is told of once: admitted, rejected, evicted or abandoned. A request whose task
    is cancelled after its grant stays admitted; its permit is released with IGNORE.
    """

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None: ...

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        """`request` is None when it was turned away before its body was read."""

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None: ...

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        """The waiter's task was cancelled: its client is gone."""

    def released(self, permit: Permit, ending: Ending) -> None: ...

    def would_shed(self, reason: Reason) -> None:
        """Shadow mode: outside it this request would have been refused."""


class Limit(Protocol):
    """How many seats one upstream may have taken. Read at every decision; 0 or more."""

    @property
    def seats(self) -> int: ...

    @property
    def ceiling(self) -> int:
        """The most that `seats` can come to: what a request takes that is wider than all of it."""

    @property
    def widest(self) -> int:
        """What such a request waits for: as many seats as there can be while the limit is as open
        as it is now. More than `seats` where others hold some, and will give them back."""

    @property
    def held(self) -> int:
        """No less than `seats`: what is ours now, of which `seats` may open only a part. What is
        taken never comes to more, not even by a request that is wider than what is open."""


class SettableLimit(Limit, Protocol):
    """One whose most can be set while it is in use."""

    def set_most(self, seats: int) -> None:
        """What is taken beyond it stays taken, and nothing is added until it has come free."""


class Placement(Protocol):
    """Which of several upstreams carries a request that could run now."""

    def choose(
        self,
        accounts: Sequence[Account],
        width: int,
        prompt_tokens: int = 0,
        kv_tokens: int = 0,
        affinity: int | None = None,
    ) -> Account | None:
        """One of `accounts` in which so many seats and tokens are free; None when there is none.

        `width` is 1 or more. `affinity`: requests that say the same are best served by the same
        upstream. The list stays the same object until an upstream comes or goes.
        """


class Queued(Protocol):
    """What a discipline sees of a waiter. `width`: the seats that it will take."""

    @property
    def request(self) -> AdmissionRequest: ...

    @property
    def width(self) -> int: ...


class Discipline(Protocol[W]):
    """Which waiter of one queue is next, and who makes room in a full one.

    The cost of every method does not grow with the number of waiters (a logarithm will do).
    """

    def add(self, waiter: W) -> None:
        """The waiter is not in the queue yet."""

    def remove(self, waiter: W) -> None:
        """Takes it out, wherever it stands. Raises KeyError when it is not there."""

    def head(self) -> W | None:
        """The next to be served, still in the queue; None when nobody waits who may run.

        The answer stays the same until add(), remove(), took() or gave_back() is called.
        """

    def second(self) -> W | None:
        """Who goes first of those who may run besides the head; None when there is nobody."""

    def __len__(self) -> int:
        """How many wait, those included that may not run yet."""

    def all(self) -> list[W]:
        """All who wait, in no particular order."""

    def may_run(self, request: AdmissionRequest) -> bool:
        """Whether nothing but a lack of room keeps a newcomer from running at once: nobody waits
        who goes first, and its tenant is below its cap."""

    def over_cap(self, request: AdmissionRequest) -> bool:
        """Whether it is its tenant's cap that keeps such a request from running now."""

    def took(self, request: AdmissionRequest, seats: int) -> None:
        """Seats were granted to a request, whether it had waited (it is removed by then) or not."""

    def gave_back(self, request: AdmissionRequest, seats: int) -> None:
        """Seats that were told to took() are free again."""

    def seats_ahead(self, request: AdmissionRequest) -> int:
        """Queued seats that would be served before a newcomer; an estimate may do."""

    def yields_to(self, request: AdmissionRequest) -> W | None:
        """Of a full queue, who makes room for this newcomer; None: it is the newcomer who goes."""
