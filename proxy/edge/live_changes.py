"""/admin/settings and /admin/drain: what may be changed while the gateway runs, and by whom it was.

Served on the admin listener, and only where SLUICE_ADMIN_TOKEN is set. Every change, and every one
that was refused, is a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from proxy.edge import error_table
from proxy.edge.admin_openapi import SCHEMAS
from proxy.edge.answers import CLOSE, OwnAnswer, Refusal
from proxy.edge.api_keys import ApiKeys
from proxy.edge.rate_limited_log import RateLimitedLog
from proxy.openai_api.errors import ErrorCode, ErrorType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy.env_values.key_digest import KeyDigest

_log = logging.getLogger("sluice.admin")

LARGEST_BODY_BYTES = 16 * 1024
BODY_WITHIN_S = 10.0

NO_TOKEN = OwnAnswer(
    401,
    ErrorType.INVALID_REQUEST,
    ErrorCode.INVALID_API_KEY,
    "Changes need the token of SLUICE_ADMIN_TOKEN, as 'Authorization: Bearer <token>'.",
    # The body of a stranger is not waited for.
    headers=((b"www-authenticate", b"Bearer"), CLOSE),
)
_TOO_LARGE = OwnAnswer(
    413,
    ErrorType.INVALID_REQUEST,
    ErrorCode.BODY_TOO_LARGE,
    f"The request body is larger than {LARGEST_BODY_BYTES} bytes.",
    headers=(CLOSE,),
)
_TOO_SLOW = OwnAnswer(
    408,
    ErrorType.INVALID_REQUEST,
    ErrorCode.BODY_TIMEOUT,
    f"The request body did not arrive within {BODY_WITHIN_S:g} s.",
    headers=(CLOSE,),
)
_LEAVING = OwnAnswer(
    409,
    ErrorType.INVALID_REQUEST,
    ErrorCode.BAD_REQUEST,
    "The gateway was told to stop, and drains for good.",
)


class ImpossibleChangeError(Exception):
    """Nothing was changed. The message has a line for each fault, without secrets."""


@dataclass(frozen=True, slots=True)
class LiveValue:
    """One setting that may be changed. `name` is what it is called in a request."""

    name: str
    variable: str
    now: object
    at_start: object

    @property
    def is_changed(self) -> bool:
        return self.now != self.at_start


@dataclass(frozen=True, slots=True)
class Change:
    variable: str
    before: object
    after: object


class Live(Protocol):
    """What may be changed."""

    def values(self) -> Sequence[LiveValue]: ...

    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """What each may be, in the terms of JSON Schema; by its name in a request."""

    def change(self, wanted: Mapping[str, object]) -> Sequence[Change]:
        """All of it, in one step, or nothing. None takes a setting back to what it was at the
        start. Raises ImpossibleChangeError."""


class DrainSwitch(Protocol):
    """The drain that may be taken back."""

    @property
    def is_on(self) -> bool: ...

    @property
    def running(self) -> int:
        """Requests that were let in and have not ended."""

    def switch(self, *, on: bool) -> bool:
        """False when it cannot be taken back: the process was told to stop."""


def live_changes_router(live: Live, drain: DrainSwitch, token: KeyDigest | None) -> APIRouter:
    """Whoever has the `token` may look and change. Without one there is nothing here."""
    router = APIRouter()
    if token is None:
        return router
    keys, strangers = ApiKeys({"admin": token}), RateLimitedLog(_log)

    def check(request: Request) -> None:
        if keys.holder(request.headers.raw) is None:
            who = _who(request)
            strangers.warning(
                f"{who}: no valid token for {request.url.path}",
                f"attempts without a valid token, the last by {who}",
            )
            raise Refusal(NO_TOKEN)

    described = {SCHEMAS: _described(live.schemas())}

    @router.api_route("/admin/settings", methods=["GET", "PATCH"], openapi_extra=described)
    async def settings(request: Request) -> JSONResponse:
        check(request)
        if request.method == "PATCH":
            with _refusal_written_down(_who(request), "change settings"):
                _change(live, await _object(request), _who(request))
        return _answer(shown(live.values()))

    @router.api_route("/admin/drain", methods=["GET", "PUT"])
    async def drain_state(request: Request) -> JSONResponse:
        check(request)
        if request.method == "PUT":
            with _refusal_written_down(_who(request), "switch the drain"):
                _switch(drain, await _object(request), _who(request))
        return _answer({"draining": drain.is_on, "running": drain.running})

    return router


def _described(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is answered and what may be asked, for the listener's description."""
    shown_as = {
        name: _object_of({"setting": {"type": "string"}, "now": value, "at_start": value})
        for name, value in values.items()
    }
    asked_as = {name: {"anyOf": _ways_to_write(value)} for name, value in values.items()}
    change = _object_of(asked_as) | {"required": []}
    return {"Settings": _object_of(shown_as), "Change": change}


def _object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _ways_to_write(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    as_number = [{"enum": [0, 1]}] if value.get("type") == "boolean" else []
    as_text = {"type": "string", "description": "As it would stand in the environment."}
    at_start = {"type": "null", "description": "As at the start."}
    return [value, *as_number, as_text, at_start]


def shown(values: Sequence[LiveValue]) -> dict[str, Any]:
    """As a program reads them."""
    return {
        one.name: {"setting": one.variable, "now": one.now, "at_start": one.at_start}
        for one in values
    }


@contextmanager
def _refusal_written_down(who: str, what: str) -> Iterator[None]:
    """Whatever it is refused for: who tried is asked for as often as who did."""
    try:
        yield
    except Refusal as refusal:
        _log.warning("%s: refused to %s: %s", who, what, refusal.answer.message)
        raise


def _change(live: Live, wanted: dict[str, object], who: str) -> None:
    try:
        changes = live.change(wanted)
    except ImpossibleChangeError as error:
        said = "; ".join(str(error).splitlines())
        raise Refusal(error_table.bad_request(said)) from None
    for change in changes:
        before, after = _as_json(change.before), _as_json(change.after)
        _log.warning("%s: %s %s -> %s", who, change.variable, before, after)


def _switch(drain: DrainSwitch, wanted: dict[str, object], who: str) -> None:
    on = wanted.get("draining")
    if wanted.keys() != {"draining"} or not isinstance(on, bool):
        raise Refusal(error_table.bad_request('The body must be {"draining": true} or false.'))
    before = drain.is_on
    if not drain.switch(on=on):
        raise Refusal(_LEAVING)
    if on != before:
        _log.warning("%s: drain %s, %d requests run", who, "on" if on else "off", drain.running)


async def _object(request: Request) -> dict[str, object]:
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            body = await _body(request)
        found = msgspec.json.decode(body, type=dict[str, object])
    except TimeoutError:
        raise Refusal(_TOO_SLOW) from None
    # A RecursionError is what too many brackets in one another give.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(error_table.bad_request("The body must be one JSON object.")) from None
    except ClientDisconnect:
        raise Refusal(error_table.bad_request("The body did not arrive.")) from None
    return found


async def _body(request: Request) -> bytearray:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            raise Refusal(_TOO_LARGE)
    return body


def _as_json(value: object) -> str:
    """As GET /admin/settings shows it."""
    return msgspec.json.encode(value).decode()


def _who(request: Request) -> str:
    return f"{request.client.host}:{request.client.port}" if request.client else "somebody"


def _answer(content: dict[str, Any]) -> JSONResponse:
    return JSONResponse(content, headers={"cache-control": "no-store"})
