from __future__ import annotations

import math

import pytest

from proxy.admission.outcome import Evicted, Load, Reason, RefusalFacts, Refused, Rejected

FACTS = RefusalFacts(
    reason=Reason.QUEUE_FULL,
    seats=1,
    load=Load(in_flight=2, limit=2, queue_depth=4, max_queue_depth=4),
    time_in_queue_s=0.0,
    expected_wait_s=3.5,
)


@pytest.mark.parametrize("kind", [Rejected, Evicted])
def test_a_refusal_carries_its_facts(kind: type[Refused]) -> None:
    refusal = kind(FACTS)
    assert refusal.facts is FACTS
    assert refusal.reason is Reason.QUEUE_FULL
    assert "queue_full" in str(refusal)


def test_whoever_never_waited_cannot_have_been_evicted() -> None:
    assert not issubclass(Rejected, Evicted)
    assert not issubclass(Evicted, Rejected)


def test_reasons_are_the_codes_that_clients_see() -> None:
    assert {str(reason) for reason in Reason} == {
        "queue_full",
        "queue_timeout",
        "deadline_unreachable",
        "tenant_limit",
        "retry_budget_exhausted",
        "upstream_unavailable",
        "upstream_stalled",
        "draining",
    }


def test_a_load_without_tokens_is_one_of_one_engine_that_limits_none() -> None:
    assert Load(2, 2, 4, 4)[4:] == (0, None, 0, None, 1)


def test_unless_told_otherwise_it_may_wait_for_ever_and_is_not_invited_back() -> None:
    assert (FACTS.may_wait_s, FACTS.may_retry) == (math.inf, False)
    assert not Evicted(FACTS).timed_out
