from __future__ import annotations

import pytest

from proxy.admission.outcome import Load, Reason, RefusalFacts
from proxy.admission.retry_after import RetryAfter
from proxy.edge.refusal_forms import Form, RefusalForms

FULL = RefusalFacts(Reason.QUEUE_FULL, 1, Load(2, 2, 4, 4), 0.0, 3.0)
AGAIN = RetryAfter(7, 6500)


def form_for(forms: RefusalForms, facts: RefusalFacts = FULL, again: RetryAfter = AGAIN) -> Form:
    form = forms.find(facts, again)
    assert form is not None
    return form


def test_a_request_gets_its_own_id_and_its_own_milliseconds() -> None:
    forms = RefusalForms(503)
    for milliseconds, request_id in ((6500, b"one"), (6999, b"two")):
        again = RetryAfter(7, milliseconds)
        head, _ = form_for(forms, again=again).fill(again, request_id)
        assert head.count(b"retry-after-ms") == head.count(b"x-request-id") == 1
        assert head.endswith(
            b"retry-after-ms: %d\r\nx-request-id: %b\r\n" % (milliseconds, request_id)
        )


def test_who_is_told_the_same_gets_the_same_form() -> None:
    forms = RefusalForms(503)
    other = FULL._replace(seats=3, expected_wait_s=4.0, may_wait_s=1.0)
    assert form_for(forms) is form_for(forms, other, RetryAfter(7, 6501))


@pytest.mark.parametrize(
    ("facts", "again"),
    [
        (FULL, RetryAfter(8, 7500)),
        (FULL._replace(may_retry=True), AGAIN),
        (FULL._replace(reason=Reason.TENANT_LIMIT), AGAIN),
        (FULL._replace(load=Load(1, 2, 4, 4)), AGAIN),
    ],
)
def test_who_is_told_something_else_gets_another(facts: RefusalFacts, again: RetryAfter) -> None:
    forms = RefusalForms(503)
    assert form_for(forms) != form_for(forms, facts, again)


@pytest.mark.parametrize(
    "facts",
    [
        FULL._replace(time_in_queue_s=0.01),
        FULL._replace(reason=Reason.DEADLINE_UNREACHABLE),
        FULL._replace(reason=Reason.UPSTREAM_UNAVAILABLE),
        FULL._replace(reason=Reason.DRAINING),
    ],
)
def test_there_is_none_for_what_differs_from_request_to_request(facts: RefusalFacts) -> None:
    assert RefusalForms(503).find(facts, AGAIN) is None
