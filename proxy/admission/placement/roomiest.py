"""Where the largest share of seats is free; of several such, any of them.

Ties are drawn by lot: gateways that know nothing of one another, each with the same list, would
otherwise all begin with its first engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from proxy.admission.account import Account


class Roomiest:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(
        self,
        accounts: Sequence[Account],
        width: int,
        prompt_tokens: int = 0,
        kv_tokens: int = 0,
        affinity: int | None = None,  # noqa: ARG002 - the port
    ) -> Account | None:
        best: list[Account] = []
        best_share = 0.0
        for account in accounts:
            limit = account.limit.seats
            free = limit - account.taken
            if free < width or free / limit < best_share:
                continue
            if not account.has_tokens(prompt_tokens, kv_tokens):
                continue
            if free / limit > best_share:
                best.clear()
                best_share = free / limit
            best.append(account)
        if len(best) > 1:
            return best[int(self._rng.random() * len(best))]
        return best[0] if best else None
