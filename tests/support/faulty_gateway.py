"""`sluice` with faults in it, each of which quotes the request in its exception: as a command in
front of the usual one, `run_by=FAULTY`. A path that ends in the name of a fault brings it about."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS = ("in-the-request", "after-the-answer", "in-the-parser", "in-a-callback", "in-a-task")
FAULTY = (sys.executable, __file__)


def fault_for(path: str) -> str | None:
    return next((fault for fault in FAULTS if path.endswith(fault)), None)


def fail_quoting(scope: Any, *_: object) -> None:  # noqa: ANN401 - an ASGI scope
    raise ValueError(f"{scope['raw_path']!r}?{scope['query_string']!r} {scope['headers']}")


def faulty(original: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """The method, which fails first for requests that say so."""

    def method(self: Any, visit: Any, *rest: Any) -> Any:  # noqa: ANN401 - whatever it is
        scope = getattr(visit, "scope", None) or self.scope
        fault = fault_for(scope["path"])
        if fault in names:
            loop = asyncio.get_running_loop()
            match fault:
                case "in-a-callback":
                    loop.call_soon(fail_quoting, scope, str(scope["headers"]))
                case "in-a-task":
                    loop.create_task(_fail_in_task(scope))  # noqa: RUF006 - nobody is to look
                case _:
                    fail_quoting(scope)
        return original(self, visit, *rest)

    return method


async def _fail_in_task(scope: Any) -> None:  # noqa: ANN401 - as above
    fail_quoting(scope)


def plant() -> None:
    from proxy.edge.connection import SluiceProtocol  # noqa: PLC0415 - found by this file's own
    from proxy.edge.doorman import Doorman  # noqa: PLC0415 - as above
    from proxy.edge.records import Records  # noqa: PLC0415 - as above

    inside = ("in-the-request", "in-a-callback", "in-a-task")
    Doorman._route = faulty(Doorman._route, *inside)  # type: ignore[method-assign]
    Records.finished = faulty(Records.finished, "after-the-answer")  # type: ignore[method-assign]
    SluiceProtocol.on_body = faulty(SluiceProtocol.on_body, "in-the-parser")  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    plant()
    from proxy.__main__ import main

    sys.argv = ["sluice", *sys.argv[4:]]  # behind `python -m proxy`
    main()
