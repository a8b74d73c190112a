from __future__ import annotations

import asyncio

from proxy.shared_limit.memory_store import MemoryStore
from proxy.shared_limit.store import GRACE_S, Granted, Renewal
from tests.support.sharing_gateways import ENGINE, Clock


def asked_for(store: MemoryStore, gateway: str, seq: int, want: int, keep: int = 0) -> Granted:
    renewal = Renewal(
        gateway=gateway, seq=seq, keep=keep, want=want, widest=1, waited_ms=0, limit=8
    )
    answer = asyncio.run(store.renew({ENGINE: renewal}))[ENGINE]
    assert answer is not None
    return answer


def settled_store() -> tuple[MemoryStore, Clock]:
    clock = Clock()
    store = MemoryStore(clock)
    asked_for(store, "a", 1, 0)
    clock.now += GRACE_S
    return store, clock


def test_it_remembers_who_holds_what() -> None:
    store, _ = settled_store()
    asked_for(store, "a", 2, 8)
    assert asked_for(store, "b", 1, 8).held == 0
    assert store.held(ENGINE) == {"a": 8, "b": 0}


def test_of_an_engine_that_nobody_has_asked_for_nothing_is_held() -> None:
    assert MemoryStore(Clock()).held("other") == {}


def test_a_restart_begins_anew_with_its_memory_or_without() -> None:
    for loses_memory in (True, False):
        store, _ = settled_store()
        asked_for(store, "a", 2, 8)
        store.restart(loses_memory=loses_memory)
        answer = asked_for(store, "b", 1, 8)
        assert (answer.held, answer.in_grace) == (0, True)
        assert answer.members == (("b",) if loses_memory else ("a", "b"))


def test_it_sees_the_connections_that_it_is_told_of() -> None:
    store = MemoryStore(Clock())
    store.open_connections = {"a"}
    assert asyncio.run(store.connected()) == {"a"}
    store.open_connections = None
    assert asyncio.run(store.connected()) is None
    asyncio.run(store.aclose())
