from __future__ import annotations

import errno
import os

import pytest

from proxy.telemetry.traceback_text import shown_error, traceback_text
from proxy.upstream.errors import UpstreamClosedError

CANARY = "canary of a client"


def caught(error: BaseException, *, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as raised:  # noqa: BLE001 - whatever it is
        return raised


def decoding() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, "invalid start byte")


@pytest.mark.parametrize(
    "error",
    [
        ValueError(CANARY),
        KeyError(CANARY),
        RuntimeError(CANARY),
        TypeError(CANARY),
        decoding(),
        OSError(CANARY),
        OSError(errno.ENOENT, os.strerror(errno.ENOENT), CANARY),
        ExceptionGroup(CANARY, [ValueError(CANARY), KeyError(CANARY)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_text_of_an_exception_is_not_shown_and_its_way_is(error: BaseException) -> None:
    error.add_note(CANARY)
    told = traceback_text(caught(error))
    assert CANARY not in told
    assert "raise error from cause" in told
    assert "in caught" in told
    assert type(error).__name__ in told


def test_what_the_system_says_is_shown() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert shown_error(refused) == "ConnectionRefusedError: [Errno 111] Connection refused"


def test_what_we_say_ourselves_is_shown() -> None:
    error = UpstreamClosedError("engine at e:1: it closed")
    assert (
        shown_error(error) == "proxy.upstream.errors.UpstreamClosedError: engine at e:1: it closed"
    )


def test_an_error_behind_another_is_told_too() -> None:
    cause = caught(KeyError(CANARY))
    told = traceback_text(caught(ValueError(CANARY), cause=cause))
    assert told.count("Traceback (most recent call last):") == 2
    first, second = told.split(
        "The above exception was the direct cause of the following exception"
    )
    assert first.rstrip().endswith("KeyError")
    assert second.endswith("ValueError\n")


def test_an_error_while_another_was_dealt_with_is_told_too() -> None:
    def fail() -> None:
        try:
            raise KeyError(CANARY)
        except KeyError:
            raise ValueError(CANARY)  # noqa: B904 - as it happens by mistake

    with pytest.raises(ValueError, match=CANARY) as raised:
        fail()
    told = traceback_text(raised.value)
    assert "During handling of the above exception" in told
    assert CANARY not in told.replace("raise KeyError(CANARY)", "")


def test_errors_of_a_group_are_told_one_by_one() -> None:
    group = caught(ExceptionGroup("x", [ValueError("a"), KeyError("b")]))
    told = traceback_text(group).splitlines()
    assert told[-4:] == [
        "  | Traceback (most recent call last):",
        "  | ValueError",
        "  | Traceback (most recent call last):",
        "  | KeyError",
    ]


def test_a_chain_that_bites_its_own_tail_comes_to_an_end() -> None:
    one, other = ValueError("a"), KeyError("b")
    one.__cause__, other.__cause__ = other, one
    assert traceback_text(one).count("direct cause") == 20
