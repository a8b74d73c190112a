from __future__ import annotations

import json

import pytest

from proxy.edge.unreadable import UnreadableHeadError, answer_to_unreadable


@pytest.mark.parametrize("status", [400, 408, 431])
def test_the_answer_is_whole_and_ends_the_connection(status: int) -> None:
    head, _, body = answer_to_unreadable(status, "bad_request", "No.").partition(b"\r\n\r\n")
    status_line, *fields = head.split(b"\r\n")
    assert status_line.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in fields
    assert b"x-sluice-reason: bad_request" in fields
    assert b"content-length: %d" % len(body) in fields
    assert json.loads(body)["error"]["message"] == "No."


def test_an_error_says_what_the_client_is_told() -> None:
    error = UnreadableHeadError(431, "Too large.")
    assert (error.status, str(error)) == (431, "Too large.")
