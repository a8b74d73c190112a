"""Every answer that is made here, against the table in the contract."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from proxy.admission.outcome import Load, Reason, RefusalFacts
from proxy.admission.retry_after import RetryAfter
from proxy.edge import error_table
from proxy.upstream import errors as upstream_errors
from proxy.upstream.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.edge.answers import OwnAnswer

UNAVAILABLE = "service_unavailable_error"
RATE_LIMIT = "rate_limit_error"
INVALID = "invalid_request_error"
AGAIN = RetryAfter(7, 6500)

FACTS = RefusalFacts(
    reason=Reason.QUEUE_FULL,
    seats=1,
    load=Load(in_flight=57, limit=58, queue_depth=31, max_queue_depth=32),
    time_in_queue_s=4.256,
    expected_wait_s=3.0,
)
# Reason: status and type as they are when the overload status is 503.
REFUSALS = {
    Reason.QUEUE_FULL: (503, UNAVAILABLE),
    Reason.QUEUE_TIMEOUT: (503, UNAVAILABLE),
    Reason.DEADLINE_UNREACHABLE: (503, UNAVAILABLE),
    Reason.RETRY_BUDGET_EXHAUSTED: (503, UNAVAILABLE),
    Reason.TENANT_LIMIT: (429, RATE_LIMIT),
    Reason.UPSTREAM_UNAVAILABLE: (503, UNAVAILABLE),
    Reason.UPSTREAM_STALLED: (503, UNAVAILABLE),
    Reason.DRAINING: (503, UNAVAILABLE),
}
OVERLOAD = [
    Reason.QUEUE_FULL,
    Reason.QUEUE_TIMEOUT,
    Reason.DEADLINE_UNREACHABLE,
    Reason.RETRY_BUDGET_EXHAUSTED,
]
UPSTREAM_FAILURES = {
    "upstream_connect": 502,
    "upstream_protocol": 502,
    "upstream_closed": 502,
    "upstream_timeout": 504,
}


def refused(reason: Reason, overload_status: int = 503) -> OwnAnswer:
    return error_table.refused(
        FACTS._replace(reason=reason), overload_status, AGAIN, lambda: "engine: connection refused"
    )


def upstream_error_classes() -> list[type[UpstreamError]]:
    return [
        kind
        for kind in vars(upstream_errors).values()
        if isinstance(kind, type) and issubclass(kind, UpstreamError)
    ]


def test_every_reason_is_in_the_table() -> None:
    assert set(REFUSALS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_has_the_status_type_and_code_of_its_reason(reason: Reason) -> None:
    answer = refused(reason)
    assert (answer.status, answer.type) == REFUSALS[reason]
    assert answer.code == reason.value


@pytest.mark.parametrize("reason", Reason)
def test_the_overload_status_is_for_lack_of_room_only(reason: Reason) -> None:
    answer = refused(reason, overload_status=429)
    expected = (429, RATE_LIMIT) if reason in OVERLOAD else REFUSALS[reason]
    assert (answer.status, answer.type) == expected


@pytest.mark.parametrize(("reason", "overload_status"), list(itertools.product(Reason, [503, 429])))
def test_every_refusal_says_when_to_come_back(reason: Reason, overload_status: int) -> None:
    headers = dict(refused(reason, overload_status).headers)
    assert headers[b"retry-after"] == b"7"
    assert headers[b"retry-after-ms"] == b"6500"


@pytest.mark.parametrize(("reason", "may_retry"), list(itertools.product(Reason, [True, False])))
def test_every_refusal_says_whether_to_come_back(reason: Reason, may_retry: bool) -> None:
    facts = FACTS._replace(reason=reason, may_retry=may_retry)
    answer = error_table.refused(facts, 503, AGAIN, lambda: "engine: connection refused")
    assert dict(answer.headers)[b"x-should-retry"] == (b"true" if may_retry else b"false")
    assert ("try again in about 7 s" in answer.message) is may_retry
    assert ("do not retry" in answer.message) is not may_retry


def test_a_deadline_that_cannot_be_met_is_told_with_both_times() -> None:
    facts = FACTS._replace(reason=Reason.DEADLINE_UNREACHABLE, may_wait_s=1.25)
    message = error_table.refused(facts, 503, AGAIN, str).message
    assert "would wait about 3.0 s and may wait 1.2 s" in message


def test_of_several_engines_the_sums_are_said_to_be_sums() -> None:
    facts = FACTS._replace(load=FACTS.load._replace(upstreams=3))
    for reason in (Reason.QUEUE_FULL, Reason.QUEUE_TIMEOUT, Reason.TENANT_LIMIT):
        message = error_table.refused(facts._replace(reason=reason), 503, AGAIN, str).message
        assert "57 of 58 seats of 3 engines are taken" in message
        assert "The engine " not in message
    assert "57 of 58 seats are taken" in refused(Reason.QUEUE_FULL).message


def test_token_limits_are_told_where_there_are_any() -> None:
    assert "tokens" not in refused(Reason.QUEUE_FULL).message
    tokens = {"kv_tokens": 900, "kv_limit": 1000, "prefill_tokens": 7, "prefill_limit": 50}
    facts = FACTS._replace(load=FACTS.load._replace(**tokens))
    message = error_table.refused(facts, 503, AGAIN, str).message
    assert "900 of 1000 KV tokens" in message
    assert "7 of 50 prefill tokens" in message


@pytest.mark.parametrize("reason", Reason)
def test_only_a_draining_gateway_closes_the_connection(reason: Reason) -> None:
    assert refused(reason).close is (reason is Reason.DRAINING)


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_says_how_long_the_request_waited(reason: Reason) -> None:
    message = refused(reason).message
    assert "4.26 s" in message
    assert "about 7 s" in message


@pytest.mark.parametrize("reason", [*OVERLOAD, Reason.TENANT_LIMIT])
def test_a_refusal_for_lack_of_room_names_the_limits_and_what_was_measured(reason: Reason) -> None:
    message = refused(reason).message
    assert "57 of 58 seats" in message
    assert "31 of 32 places" in message


@pytest.mark.parametrize("reason", [Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED])
def test_a_refusal_for_the_engines_sake_says_what_is_wrong_with_it(reason: Reason) -> None:
    assert "engine: connection refused" in refused(reason).message


@pytest.mark.parametrize(("status", "type_"), [(503, UNAVAILABLE), (429, RATE_LIMIT)])
def test_a_full_intake_is_answered_as_a_full_queue(status: int, type_: str) -> None:
    answer = error_table.intake_full(1_000_000, status, AGAIN, may_retry=True)
    assert (answer.status, answer.type, answer.code) == (status, type_, "queue_full")
    assert "1000000 bytes" in answer.message
    assert answer.close
    assert answer.headers == (
        (b"retry-after", b"7"),
        (b"retry-after-ms", b"6500"),
        (b"x-should-retry", b"true"),
    )


@pytest.mark.parametrize(("status", "type_"), [(503, UNAVAILABLE), (429, RATE_LIMIT)])
@pytest.mark.parametrize(
    ("of_bytes", "said"), [(True, "may hold 70 bytes"), (False, "70 requests")]
)
def test_too_many_open_requests_are_answered_so_too_and_the_client_keeps_its_connection(
    of_bytes: bool, said: str, status: int, type_: str
) -> None:
    answer = error_table.open_full(70, of_bytes, status, AGAIN, may_retry=False)
    assert (answer.status, answer.type, answer.code) == (status, type_, "queue_full")
    assert said in answer.message
    assert not answer.close
    assert dict(answer.headers)[b"retry-after"] == b"7"
    assert dict(answer.headers)[b"x-should-retry"] == b"false"


def test_the_end_of_the_drain_is_answered_as_draining() -> None:
    answer = error_table.drain_ended(AGAIN, may_retry=False)
    assert (answer.status, answer.type, answer.code) == (503, UNAVAILABLE, "draining")
    assert answer.close
    assert dict(answer.headers)[b"retry-after"] == b"7"
    assert error_table.DRAIN_ENDED.code == "draining"


def test_every_upstream_failure_is_in_the_table() -> None:
    assert {kind.code for kind in upstream_error_classes()} == set(UPSTREAM_FAILURES)


@pytest.mark.parametrize("kind", upstream_error_classes())
def test_an_upstream_failure_has_its_status_and_says_what_happened(
    kind: type[UpstreamError],
) -> None:
    answer = error_table.upstream_failed(kind("silent for 600 s"))
    assert (answer.status, answer.type) == (UPSTREAM_FAILURES[kind.code], "upstream_error")
    assert answer.code == kind.code
    assert "silent for 600 s" in answer.message
    assert not answer.close
    assert answer.headers == ()


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (error_table.INVALID_API_KEY, 401, "invalid_api_key"),
        (error_table.UNKNOWN_PATH, 404, "unknown_path"),
        (error_table.method_not_allowed("PUT", ("GET",)), 405, "method_not_allowed"),
        (error_table.body_too_large(1000), 413, "body_too_large"),
        (error_table.body_timeout(30, 12), 408, "body_timeout"),
        (error_table.bad_request("not JSON"), 400, "bad_request"),
        (error_table.too_many_sequences(9, 8), 400, "too_many_sequences"),
    ],
)
def test_a_request_that_is_wrong_is_an_invalid_request(
    answer: OwnAnswer, status: int, code: str
) -> None:
    assert (answer.status, answer.type, answer.code) == (status, INVALID, code)
    assert b"retry-after" not in dict(answer.headers)


def test_a_401_says_how_to_authenticate() -> None:
    assert dict(error_table.INVALID_API_KEY.headers)[b"www-authenticate"] == b"Bearer"


def test_a_405_says_which_methods_there_are() -> None:
    answer = error_table.method_not_allowed("PUT", ("GET", "DELETE"))
    assert dict(answer.headers)[b"allow"] == b"GET, DELETE"
    assert "GET, DELETE, not PUT" in answer.message


def test_a_method_of_any_length_is_quoted_in_part() -> None:
    assert len(error_table.method_not_allowed("X" * 60_000, ("GET",)).message) < 200


def test_messages_carry_the_limit_and_the_measured_value() -> None:
    assert "1000 bytes (SLUICE_MAX_BODY_BYTES)" in error_table.body_too_large(1000).message
    late = error_table.body_timeout(2.5, 12).message
    assert "2.5 s (SLUICE_BODY_TIMEOUT)" in late
    assert "12 bytes" in late
    wide = error_table.too_many_sequences(9, 8).message
    assert "9 sequences" in wide
    assert "at most 8" in wide


@pytest.mark.parametrize("answer", [error_table.body_too_large(1), error_table.body_timeout(1, 0)])
def test_an_upload_that_is_not_read_to_its_end_costs_the_connection(answer: OwnAnswer) -> None:
    assert answer.close


def test_a_crash_is_a_server_error_that_tells_nothing_of_the_inside() -> None:
    answer = error_table.INTERNAL_ERROR
    assert (answer.status, answer.type, answer.code) == (500, "server_error", "internal_error")
    assert answer.close
