"""One client library in a process of its own: a request a line comes in, an answer a line goes out.

Both are JSON. A driver runs in the library's own environment, so this file rests on nothing but the
standard library, as old as Python 3.11.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version as version_of
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TOOL_PARAMETERS", "Ask", "chosen", "described", "messages", "serve", "version_of"]

Ask = SimpleNamespace
"""base_url (with no /v1), api_key, model, text, and what else the call takes. `max_retries` and
`timeout` are None for the library's own defaults."""

MESSAGE = {"role": "user", "content": "hello there"}
TOOL_PARAMETERS = {
    "type": "object",
    "properties": {"full": {"type": "boolean"}},
    "required": ["full"],
    "additionalProperties": False,
}


def chosen(ask: Ask, retries: str = "max_retries") -> dict[str, Any]:
    """The options that a test chose; what it did not choose stays the library's."""
    options = {retries: ask.max_retries, "timeout": ask.timeout}
    return {name: value for name, value in options.items() if value is not None}


def messages(ask: Ask) -> list[dict[str, str]]:
    return [{**MESSAGE, "content": ask.text or MESSAGE["content"]}]


def described(error: BaseException) -> dict[str, Any]:
    """What an application can read off an exception. A library that has no `code` has the answer
    that holds it."""
    body: Any = getattr(error, "body", None) or _answered(error)
    inner = body.get("error", body) if isinstance(body, dict) else None
    in_body = inner.get("code") if isinstance(inner, dict) else None
    return {
        "class": type(error).__name__,
        "family": [kind.__name__ for kind in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None) or in_body,
        "message": str(error),
        "request_id": getattr(error, "request_id", None),
    }


def _answered(error: BaseException) -> Any:  # noqa: ANN401 - whatever was in the body
    try:
        return json.loads(getattr(error, "response").content)  # noqa: B009 - not all have one
    except (AttributeError, ValueError):
        return None


def serve(
    version: str,
    calls: Mapping[str, Callable[[Ask], Any]],
    describe: Callable[[BaseException], dict[str, Any]] = described,
) -> None:
    """Never raises for what the library raises: that is the answer."""
    # The answers have the real standard output; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"version": version}), file=answers)
    for line in sys.stdin:
        ask = Ask(**json.loads(line))
        try:
            answer = {"returned": calls[ask.call](ask)}
        except Exception as error:  # noqa: BLE001 - the test judges it
            answer = {"raised": describe(error)}
        print(json.dumps(answer, default=str), file=answers)
