"""The core's refusals as they go out, written once for all who are told the same.

In a flood nearly all are: the seats and the queue are full, and Retry-After is one of a few dozen
numbers of seconds. So an answer is kept as a form, and only what is a request's own is filled in:
its id, and the milliseconds. To write each anew takes half of what a refusal costs without its
connection (14 us of 29, Python 3.13, 2026-12).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from proxy.admission.outcome import Reason, RefusalFacts
from proxy.admission.retry_after import RetryAfter
from proxy.edge import error_table
from proxy.edge.answers import server_timing, whole_answer
from proxy.edge.entrance import WrittenAnswer

if TYPE_CHECKING:
    from proxy.admission.outcome import Load

# What the others say differs from one request to the next, or hangs on an engine's state.
_HAVE_FORMS = frozenset({Reason.QUEUE_FULL, Reason.TENANT_LIMIT, Reason.RETRY_BUDGET_EXHAUSTED})

# 1 to 55 seconds, invited back or not, make a hundred; of a kilobyte each.
_KEPT = 256


class Form(NamedTuple):
    """An answer without the fields that fill() adds."""

    status: int
    code: str
    head: bytes
    body: bytes

    def fill(self, retry_after: RetryAfter, request_id: bytes) -> WrittenAnswer:
        """`request_id` is one of RequestHeaders, which are safe in a head."""
        own = b"retry-after-ms: %d\r\nx-request-id: %b\r\n" % (retry_after.milliseconds, request_id)
        return WrittenAnswer(self.head + own, self.body)


class RefusalForms:
    """For gated requests that were refused on arrival: they have not waited."""

    def __init__(self, overload_status: int) -> None:
        self._overload_status = overload_status
        self._form = lru_cache(_KEPT)(self._write)

    def find(self, facts: RefusalFacts, retry_after: RetryAfter) -> Form | None:
        """None for a refusal that says more than a form can."""
        if facts.reason not in _HAVE_FORMS or facts.time_in_queue_s:
            return None
        return self._form(facts.reason, facts.load, facts.may_retry, retry_after.seconds)

    def _write(self, reason: Reason, load: Load, may_retry: bool, seconds: int) -> Form:
        facts = RefusalFacts(reason, 1, load, 0.0, math.inf, may_retry=may_retry)
        answer = error_table.refused(facts, self._overload_status, RetryAfter(seconds, 0), str)
        whole = whole_answer(answer, [server_timing(0.0)])
        kept = [field for field in whole.headers if field[0] != error_table.RETRY_AFTER_MS]
        head, body = whole._replace(headers=kept).written()
        return Form(whole.status, answer.code, head, body)
