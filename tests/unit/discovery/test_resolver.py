"""As far as it goes without a name server: this machine's own names."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from proxy.discovery.resolver import SystemResolver

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(scenario: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Any:  # noqa: ANN401
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(scenario)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_known_name_has_bare_addresses(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    found = run(SystemResolver().addresses("localhost"), new_loop)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert found


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_name_that_cannot_be_one_is_an_error_of_the_system(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with pytest.raises(OSError, match=r"."):
        run(SystemResolver().addresses("a" * 64), new_loop)


def test_both_families_are_told_and_each_address_bare() -> None:
    async def scenario() -> list[str]:
        async def answer(host: str, port: None, *, type: int) -> list[Any]:  # noqa: A002
            assert (host, port, type) == ("engines", None, socket.SOCK_STREAM)
            return [
                (socket.AF_INET, type, 6, "", ("10.0.0.1", 0)),
                (socket.AF_INET6, type, 6, "", ("fd00::1", 0, 0, 0)),
            ]

        asyncio.get_running_loop().getaddrinfo = answer  # type: ignore[method-assign, assignment]
        return await SystemResolver().addresses("engines")

    assert asyncio.run(scenario()) == ["10.0.0.1", "fd00::1"]
