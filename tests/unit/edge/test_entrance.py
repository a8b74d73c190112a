from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.edge.entrance import WrittenAnswer, enter_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

NO = WrittenAnswer(b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n", b"no")


class Askable:
    def enter(self, _scope: Scope, _receive: Receive, _send: Send) -> WrittenAnswer:
        return NO


async def plain(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """An ASGI app as any other."""


def test_an_app_that_can_be_asked_says_how() -> None:
    app = Askable()
    assert enter_of(app) == app.enter


def test_any_other_app_cannot() -> None:
    assert enter_of(plain) is None
