"""How many tokens of one kind may be in one engine at once.

    a request for t tokens is charged  c = min(t, s L)   and fits while  T + c <= L

L: the limit, T: the tokens taken, s: the largest share of the limit that one request may take.

With s = 1 a request that is larger than the limit takes the whole of it and runs alone, as one
that is wider than all seats does. With s < 1 even the largest leaves room for small ones: a giant
prompt waits in its turn, and then does not keep everybody else from starting.
"""

from __future__ import annotations

PREFILL_LARGEST_SHARE = 0.75
KV_LARGEST_SHARE = 1.0


class TokenBudget:
    """`limit` may be moved at any time; None means that nothing is limited, only counted."""

    __slots__ = ("_largest_share", "limit", "taken")

    def __init__(self, limit: int | None, largest_share: float = 1.0) -> None:
        self.limit = limit
        self.taken = 0
        self._largest_share = largest_share

    def charge(self, tokens: int) -> int:
        """What a request for so many tokens takes."""
        if self.limit is None:
            return tokens
        return min(tokens, int(self.limit * self._largest_share))

    def has_room(self, charge: int) -> bool:
        """Whether so much fits now. Nothing at all always does."""
        return self.limit is None or charge == 0 or self.taken + charge <= self.limit


class TokenBudgets:
    """The two budgets of one engine. `prefill`: prompt tokens of requests that wait for their
    first byte. `kv`: prompt and output tokens of all requests in flight."""

    __slots__ = ("kv", "prefill")

    def __init__(self, prefill_limit: int | None = None, kv_limit: int | None = None) -> None:
        self.prefill = TokenBudget(prefill_limit, PREFILL_LARGEST_SHARE)
        self.kv = TokenBudget(kv_limit, KV_LARGEST_SHARE)

    def take_over(self, other: TokenBudgets) -> None:
        """What is taken there is taken here from now on, and nothing else."""
        self.prefill.taken, self.kv.taken = other.prefill.taken, other.kv.taken
        other.prefill.taken = other.kv.taken = 0

    @property
    def limits_anything(self) -> bool:
        return self.prefill.limit is not None or self.kv.limit is not None
