"""How often each client asks, and when: with the retries that its library has by default.

All clients meet each situation at once, for most of it is waiting; the tests then look at what was
on the wire between each of them and the gateway.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.interop.clients import CLIENTS, ClientError
from tests.interop.scripted_engine import RETRY_AFTER_S
from tests.interop.selection import each_client, each_of
from tests.interop.stage import STARTING_TIMEOUT_S
from tests.interop.tap import Tap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.clients import Running
    from tests.interop.stage import LoopThread, Stage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(STARTING_TIMEOUT_S)]

SITUATIONS = {
    "invited": ("inviting", {}),
    "not invited": ("full", {}),
    "told not to come by the engine": ("misbehaving", {"model": "refuses"}),
    "the engine is busy": ("misbehaving", {"model": "busy"}),
    "bad request": ("serving", {"max_tokens": 5_000}),
}
# Who is not invited is told to wait for longer than a test may take: were one invited by mistake,
# no more than a time limit would show it.
HURRIES = "not invited"
# For the same reason those who come all the same meet an engine that says no.
FOR_WHOM = {
    "not invited": lambda client: client.obeys_tickets,
    "told not to come by the engine": lambda client: not client.obeys_tickets,
}
TRIES = 3
# Three would do, if they kept.
_TICKETS_EACH = 12

Seen = dict[str, dict[str, Tap]]
"""By situation and client."""


@pytest.fixture(scope="module")
def seen(clients: Mapping[str, Running], stage: Stage, loop_thread: LoopThread) -> Seen:
    loop_thread.run(stage.open_inviting(tickets=_TICKETS_EACH * len(clients)))

    def tap(situation: str, state: str) -> Tap:
        tap = Tap(stage.sluices[state].port, hurries=situation == HURRIES)
        return loop_thread.run(tap.open())

    taps: Seen = {
        situation: {name: tap(situation, state) for name in clients}
        for situation, (state, _more) in SITUATIONS.items()
    }

    def meet_all(name: str) -> None:
        for situation, (_state, more) in SITUATIONS.items():
            if not FOR_WHOM.get(situation, bool)(clients[name].client):
                continue
            # Only to tell the clients' requests apart, for the engine is busy once for each.
            asked = {"text": name, **more, "max_retries": None}
            with contextlib.suppress(ClientError):
                clients[name].call("chat", taps[situation][name].url, **asked)

    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(meet_all, clients))
    for tap in [tap for by_client in taps.values() for tap in by_client.values()]:
        loop_thread.run(tap.close())
    return taps


@each_client
def test_who_is_invited_comes_back_twice_and_not_before_the_time(seen: Seen, name: str) -> None:
    tap = seen["invited"][name]
    assert [told.status for told in tap.told] == [503] * TRIES
    assert [told.should_retry for told in tap.told[:-1]] == ["true"] * (TRIES - 1)
    waits_for = [round(told.retry_after_s or 0, 3) for told in tap.told[:-1]]
    assert all(waited >= least for waited, least in zip(tap.waited_s, waits_for, strict=True))


@each_of(one for one in CLIENTS if one.obeys_tickets)
def test_who_is_not_invited_asks_once(seen: Seen, name: str) -> None:
    tap = seen["not invited"][name]
    assert [told.should_retry for told in tap.told] == ["false"]
    assert len(tap.asked_s) == 1


@each_of(one for one in CLIENTS if not one.obeys_tickets)
def test_a_client_that_does_not_know_the_header_comes_all_the_same(seen: Seen, name: str) -> None:
    """Which is why the gateway counts tickets, and does not rely on anybody."""
    tap = seen["told not to come by the engine"][name]
    assert [told.should_retry for told in tap.told] == ["false"] * TRIES


@each_client
def test_the_engines_own_retry_after_is_waited_for_and_then_the_call_succeeds(
    seen: Seen, name: str
) -> None:
    """It is longer than any of them waits of its own accord."""
    tap = seen["the engine is busy"][name]
    assert [told.status for told in tap.told] == [503, 200]
    assert tap.waited_s[0] >= RETRY_AFTER_S


@each_client
def test_a_bad_request_is_not_repeated(seen: Seen, name: str) -> None:
    tap = seen["bad request"][name]
    assert [told.status for told in tap.told] == [400]
    assert len(tap.asked_s) == 1
