from __future__ import annotations

import asyncio

import pytest

from proxy.edge.answers import (
    CLOSE,
    OwnAnswer,
    Refusal,
    send_answer,
    send_answer_and_linger,
    server_timing,
)
from proxy.edge.response_cycle import BODY_FOLLOWS
from proxy.openai_api.errors import ErrorType
from tests.support.client_messages import ClientMessages, SentMessages
from tests.support.scripted_app import error_of
from tests.support.virtual_time import run, settle

ANSWER = OwnAnswer(
    413, ErrorType.INVALID_REQUEST, "body_too_large", "Zu groß", ((b"x-more", b"1"),)
)


def test_an_answer_is_an_openai_error_with_an_exact_length() -> None:
    async def scenario() -> None:
        sent = SentMessages()
        await send_answer(sent.send, ANSWER, [(b"x-request-id", b"r")])
        assert sent.status == 413
        assert sent.headers == {
            b"content-type": b"application/json",
            b"content-length": b"%d" % len(sent.body),
            b"x-sluice-reason": b"body_too_large",
            b"x-more": b"1",
            b"x-request-id": b"r",
        }
        assert error_of(sent.body) == {
            "message": "Zu groß",
            "type": "invalid_request_error",
            "param": None,
            "code": "body_too_large",
        }
        assert sent.is_complete

    run(scenario())


def test_head_and_body_leave_together() -> None:
    async def scenario() -> None:
        sent = SentMessages()
        await send_answer(sent.send, ANSWER, [])
        assert sent[0][BODY_FOLLOWS] is True
        assert len(sent) == 2

    run(scenario())


@pytest.mark.parametrize(
    ("waited_s", "value"), [(0.0, b"queue;dur=0.0"), (1.23456, b"queue;dur=1234.6")]
)
def test_server_timing_is_in_milliseconds(waited_s: float, value: bytes) -> None:
    assert server_timing(waited_s) == (b"server-timing", value)


def test_a_refusal_is_called_by_its_code() -> None:
    assert str(Refusal(ANSWER)) == "body_too_large"
    assert Refusal(ANSWER).answer is ANSWER


def test_an_answer_that_lingers_is_all_there_before_the_rest_of_the_upload_is_read() -> None:
    async def scenario() -> None:
        sent, client = SentMessages(), ClientMessages()
        lingering = asyncio.create_task(
            send_answer_and_linger(sent.send, client.receive, ANSWER, [CLOSE])
        )
        await settle()
        assert sent.headers[b"content-length"] == b"%d" % len(sent.body)
        assert sent.headers[b"connection"] == b"close"
        assert not sent.is_complete
        client.body(b"rest", more=True)
        await settle()
        assert not lingering.done()
        client.body(b"end")
        await lingering
        assert sent.is_complete

    run(scenario())


def test_a_client_that_leaves_ends_the_lingering() -> None:
    async def scenario() -> None:
        sent, client = SentMessages(), ClientMessages()
        client.leave()
        await send_answer_and_linger(sent.send, client.receive, ANSWER, [CLOSE])
        assert len(sent) == 2  # nothing is said to somebody who is not there

    run(scenario())


def test_an_upload_that_never_ends_is_cut_off_after_a_mebibyte() -> None:
    async def scenario() -> None:
        sent, client = SentMessages(), ClientMessages()
        for _ in range(17):
            client.body(b"x" * 65_536, more=True)
        await send_answer_and_linger(sent.send, client.receive, ANSWER, [CLOSE])
        assert sent.is_complete
        assert (await client.receive())["more_body"]  # one of them was left unread

    run(scenario())
