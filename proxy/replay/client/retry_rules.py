"""How the clients of real applications try again, rule by rule, as measured.

Connection errors, timeouts and the statuses 408, 409, 429 and 5xx are tried again, twice by
default, unless `x-should-retry` says otherwise. The wait is `retry-after-ms`, else `Retry-After`
(seconds or an HTTP date) where the client takes it; else, with k the retries so far and u uniform
in 0 to 1,

    delay_s = min(first x 2^k, longest) x (1 - jitter x u)

The clients differ in which waits they take: see PROFILES.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from proxy.upstream.port import RawHeaders

_RETRIED_STATUSES = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """One client library. `longest_told_s` is the longest wait that it lets itself be told, that
    value included or not; what lies beyond is ignored, or ends its trying."""

    max_retries: int = 2
    first_delay_s: float = 0.5
    longest_delay_s: float = 8.0
    jitter: float = 0.25
    longest_told_s: float = 60.0
    takes_the_longest: bool = True
    gives_up_beyond: bool = False
    zero_means_now: bool = False
    obeys_should_retry: bool = True
    says_which_try: bool = True
    timeout_header: bytes = b""

    def headers(self, retries_so_far: int, timeout_s: float) -> RawHeaders:
        """What it says about itself with each try."""
        said = []
        if self.says_which_try:
            said.append((b"x-stainless-retry-count", b"%d" % retries_so_far))
        if self.timeout_header:
            said.append((self.timeout_header, f"{timeout_s:g}".encode()))
        return said

    def delay_s(
        self,
        status: int,
        headers: Mapping[str, str],
        retries_so_far: int,
        rng: random.Random,
        now_unix_s: float,
    ) -> float | None:
        """How long it waits before it tries again; None when it does not. `status` 0: no answer.
        `headers` by their names in lower case. The number of tries is the caller's business."""
        if not self._tries_again(status, headers):
            return None
        told_s = _told_s(headers, now_unix_s)
        if told_s is not None and self._takes(told_s):
            return max(told_s, 0.0)
        if told_s is not None and self.gives_up_beyond and told_s > self.longest_told_s:
            return None
        backoff_s = min(self.first_delay_s * 2.0**retries_so_far, self.longest_delay_s)
        return backoff_s * (1 - self.jitter * rng.random())

    def _tries_again(self, status: int, headers: Mapping[str, str]) -> bool:
        told = headers.get("x-should-retry")
        if self.obeys_should_retry and told in ("true", "false"):
            return told == "true"
        return status == 0 or status in _RETRIED_STATUSES or status >= 500

    def _takes(self, told_s: float) -> bool:
        if told_s <= 0:
            return told_s == 0 and self.zero_means_now
        if told_s == self.longest_told_s:
            return self.takes_the_longest
        return told_s < self.longest_told_s


PROFILES: Mapping[str, ClientProfile] = {
    # Since 2.52.0 of July 2026: above two minutes it does not try again at all.
    "openai-python": ClientProfile(
        longest_told_s=120.0,
        gives_up_beyond=True,
        timeout_header=b"x-stainless-read-timeout",
    ),
    "openai-python-old": ClientProfile(timeout_header=b"x-stainless-read-timeout"),
    "openai-node": ClientProfile(zero_means_now=True),
    "openai-node-4": ClientProfile(takes_the_longest=False, timeout_header=b"x-stainless-timeout"),
    "vercel-ai": ClientProfile(
        first_delay_s=2.0,
        longest_delay_s=64.0,
        jitter=0.0,
        takes_the_longest=False,
        zero_means_now=True,
        obeys_should_retry=False,
        says_which_try=False,
    ),
    "none": ClientProfile(max_retries=0, says_which_try=False),
}
"""By the names that the command line has for them."""


def _told_s(headers: Mapping[str, str], now_unix_s: float) -> float | None:
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            told_s = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
        return told_s if isfinite(told_s) else None
    try:
        return parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now_unix_s
    except ValueError:
        return None
