"""Each failure reaches an application as the exception that its library has for it, with the
status, the code and the gateway's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.expectations import (
    BROKEN,
    CLASSES,
    FAILURES,
    FORGETS_THE_ENGINES_CODE,
    RETRYABLE,
    TIMEOUT,
)
from tests.interop.selection import each_call, each_client
from tests.interop.stage import STARTING_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.clients import Running
    from tests.interop.stage import Stage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(STARTING_TIMEOUT_S)]


@each_client
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure(clients: Mapping[str, Running], stage: Stage, name: str, failure: str) -> None:
    how = FAILURES[failure]
    trouble = clients[name].fail("chat", stage.url(how.state), **how.more)
    assert trouble.name == CLASSES[name][how.status]
    assert trouble.status == how.status
    assert trouble.message
    if not (name in FORGETS_THE_ENGINES_CODE and how.code.isdecimal()):
        assert trouble.code == how.code
    if trouble.retryable is not None:
        assert trouble.retryable == (how.status in RETRYABLE)


@each_call(frozenset({"stream"}))
def test_a_refused_stream_is_refused_as_any_other(
    clients: Mapping[str, Running], stage: Stage, name: str, call: str
) -> None:
    trouble = clients[name].fail(call, stage.url("full"))
    assert (trouble.name, trouble.status) == (CLASSES[name][503], 503)
    assert trouble.code == "queue_full"


@each_call(frozenset({"stream"}))
def test_a_stream_that_breaks_raises_and_says_why(
    clients: Mapping[str, Running], stage: Stage, name: str, call: str
) -> None:
    trouble = clients[name].fail(call, stage.url("misbehaving"), model="breaks")
    assert trouble.name == CLASSES[name][BROKEN]
    if name != "litellm":  # it has only the words
        assert trouble.code == "upstream_closed"
    if name != "openai-oldest":  # it has only the code, and words of its own
        assert "failed at the engine" in trouble.message


@each_client
def test_a_client_that_gives_up_ends_the_work_in_the_engine(
    clients: Mapping[str, Running], stage: Stage, name: str
) -> None:
    before = stage.scripted.aborts
    trouble = clients[name].fail("chat", stage.url("misbehaving"), model="silent", timeout=0.5)
    assert trouble.name == CLASSES[name][TIMEOUT]
    stage.until_aborted(before + 1)


def test_langchains_classes_are_those_of_openai_as_well(
    clients: Mapping[str, Running], stage: Stage
) -> None:
    """An application that catches the SDK's classes goes on catching them."""
    for state, status in (("full", 503), ("full_429", 429)):
        trouble = clients["langchain"].fail("chat", stage.url(state))
        assert CLASSES["openai-newest"][status] in trouble.family
