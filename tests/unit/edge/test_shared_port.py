from __future__ import annotations

from contextlib import ExitStack

import pytest

from proxy.edge.server import Address, BindError, bind
from proxy.edge.shared_port import another_of, keep_for_own


def test_several_sockets_listen_on_one_port() -> None:
    with ExitStack() as stack:
        kept = stack.enter_context(bind(Address("127.0.0.1", 0, "")))
        keep_for_own(kept)
        sockets = [stack.enter_context(another_of(kept)) for _ in range(3)]
        for one in sockets:
            one.listen()
        assert {one.getsockname() for one in sockets} == {kept.getsockname()}


@pytest.mark.parametrize("somebody_listens", [False, True])
def test_nobody_else_gets_the_port(somebody_listens: bool) -> None:
    with ExitStack() as stack:
        kept = stack.enter_context(bind(Address("127.0.0.1", 0, "")))
        keep_for_own(kept)
        one = stack.enter_context(another_of(kept))
        if somebody_listens:
            one.listen()
        with pytest.raises(BindError, match="Address already in use"):
            bind(Address("127.0.0.1", kept.getsockname()[1], ""))


def test_a_port_that_is_not_kept_is_not_shared() -> None:
    with bind(Address("127.0.0.1", 0, "")) as bound:
        bound.listen()
        with pytest.raises(OSError, match="Address already in use"):
            another_of(bound)
