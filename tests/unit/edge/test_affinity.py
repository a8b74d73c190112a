from __future__ import annotations

from proxy.edge.affinity import PrefixAffinity, no_affinity, session_affinity
from proxy.edge.request_headers import RequestHeaders

ANY = RequestHeaders(b"req-1")


def of_session(name: bytes) -> RequestHeaders:
    return RequestHeaders(b"req-1", session=name)


def test_without_affinity_no_request_belongs_to_another() -> None:
    assert no_affinity(of_session(b"a"), b'{"prompt": "x"}') is None


def test_requests_of_one_session_belong_together_whatever_they_ask() -> None:
    a = session_affinity(of_session(b"a"), b"1")
    assert a == session_affinity(of_session(b"a"), b"2")
    assert a != session_affinity(of_session(b"b"), b"1")


def test_a_request_that_names_no_session_belongs_to_none() -> None:
    assert session_affinity(ANY, b"1") is None


def test_prompts_that_begin_alike_belong_together() -> None:
    affinity = PrefixAffinity(20)
    one = affinity(ANY, b'{"prompt": "You are a helpful assistant. One"}')
    assert one == affinity(ANY, b'{"n": 2, "prompt": "You are a helpful assistant. Two"}')
    assert one != affinity(ANY, b'{"prompt": "You were a helpful assistant. One"}')


def test_a_request_without_a_body_belongs_to_none() -> None:
    assert PrefixAffinity(20)(ANY, b"") is None


def test_where_a_request_belongs_is_the_same_in_every_process() -> None:
    assert session_affinity(of_session(b"a"), b"") == 4_681_665_781_835_383_343
