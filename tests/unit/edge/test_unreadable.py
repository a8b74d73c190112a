from __future__ import annotations

import json

import pytest

from proxy.edge.unreadable import (
    HEAD_TOO_LARGE,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    UnreadableHeadError,
    answer_to_unreadable,
    check_coding,
    check_head,
    check_head_size,
    too_large,
)


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


@pytest.mark.parametrize(("version", "hosts"), [("1.1", 1), ("1.0", 0), ("1.0", 1)])
def test_one_host_in_a_version_we_speak_is_a_request(version: str, hosts: int) -> None:
    check_head(version, hosts, ())


@pytest.mark.parametrize(("version", "hosts"), [("1.1", 0), ("1.1", 2), ("1.0", 2), ("2.0", 1)])
def test_anything_else_is_told_what_is_wrong(version: str, hosts: int) -> None:
    with pytest.raises(UnreadableHeadError, match=r"spoken here|Host headers") as raised:
        check_head(version, hosts, ())
    assert raised.value.status == 400


def test_chunked_is_the_only_coding() -> None:
    check_coding(b"Chunked")
    with pytest.raises(UnreadableHeadError, match="must be 'chunked'"):
        check_coding(b"gzip, chunked")


def test_a_head_is_as_large_as_its_target_and_its_lines() -> None:
    fields = [(b"host", b"x"), (b"a", b"")]
    assert check_head_size(b"/v1", fields) == len("/v1host: x\r\na: \r\n")


def test_a_head_has_a_largest_size() -> None:
    most = b"x" * (MAX_HEAD_BYTES - len("/a: \r\n"))
    assert check_head_size(b"/", [(b"a", most)]) == MAX_HEAD_BYTES
    with pytest.raises(UnreadableHeadError) as raised:
        check_head_size(b"/", [(b"a", most + b"x")])
    assert raised.value.status == 431


def test_a_head_is_too_large_by_its_bytes_or_by_its_fields() -> None:
    most = [(b"a", b"b")] * MAX_FIELDS
    assert too_large(MAX_HEAD_BYTES, most) is None
    check_head("1.1", 1, most)
    assert too_large(MAX_HEAD_BYTES + 1, ()) == HEAD_TOO_LARGE
    assert "256 header fields" in (too_large(1, [*most, (b"a", b"b")]) or "")
    with pytest.raises(UnreadableHeadError) as caught:
        check_head("1.1", 1, [*most, (b"a", b"b")])
    assert caught.value.status == 431
