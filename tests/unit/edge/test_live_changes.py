from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.edge.live_changes import (
    BODY_WITHIN_S,
    LARGEST_BODY_BYTES,
    Change,
    ImpossibleChangeError,
    LiveValue,
    live_changes_router,
)
from proxy.edge.local_apps import public_app
from proxy.env_values.key_digest import KeyDigest
from tests.support.asgi_transport import AsgiClient
from tests.support.scripted_app import error_of
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.asgi_transport import Headers, Response, Upload

TOKEN = "right-token"
WITH_TOKEN: Headers = [(b"authorization", f"Bearer {TOKEN}".encode())]


class Limits:
    """One setting: a number below 10."""

    def __init__(self) -> None:
        self.seats: object = 4
        self.wanted: list[Mapping[str, object]] = []

    def values(self) -> list[LiveValue]:
        return [LiveValue("seats", "SLUICE_SEATS", self.seats, 4)]

    def schemas(self) -> dict[str, dict[str, object]]:
        return {"seats": {"type": "integer", "maximum": 9}}

    def change(self, wanted: Mapping[str, object]) -> list[Change]:
        self.wanted.append(wanted)
        if wanted.get("seats") == 10 or isinstance(wanted.get("seats"), list):
            raise ImpossibleChangeError("SLUICE_SEATS=10: must be less\nand so must others")
        before, self.seats = self.seats, wanted["seats"]
        return [Change("SLUICE_SEATS", before, self.seats)]


class Switch:
    def __init__(self, *, may_end: bool = True) -> None:
        self.is_on = False
        self.running = 3
        self._may_end = may_end

    def switch(self, *, on: bool) -> bool:
        if not on and not self._may_end:
            return False
        self.is_on = on
        return True


def ask(
    method: str,
    path: str,
    body: Upload = b"",
    headers: Headers = WITH_TOKEN,
    limits: Limits | None = None,
    switch: Switch | None = None,
) -> Response:
    router = live_changes_router(limits or Limits(), switch or Switch(), KeyDigest.of(TOKEN))
    return run(AsgiClient(public_app(router)).request(method, path.encode(), headers, body))


def test_the_values_are_shown_with_those_of_the_start() -> None:
    answer = ask("GET", "/admin/settings")
    shown = {"seats": {"setting": "SLUICE_SEATS", "now": 4, "at_start": 4}}
    assert (answer.status, json.loads(answer.body)) == (200, shown)
    assert answer.header("cache-control") == "no-store"


def test_a_change_is_made_shown_and_written_down(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits()
    answer = ask("PATCH", "/admin/settings", b'{"seats": 7}', limits=limits)
    assert json.loads(answer.body)["seats"]["now"] == 7
    (line,) = caplog.messages
    assert line.endswith(": SLUICE_SEATS 4 -> 7")
    assert caplog.records[0].levelno == logging.WARNING, "whatever SLUICE_LOG_LEVEL is"


def test_a_switch_is_written_down_as_it_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    ask("PATCH", "/admin/settings", b'{"seats": true}')
    assert caplog.messages[0].endswith(": SLUICE_SEATS 4 -> true")


def test_a_change_that_cannot_be_is_one_line_to_who_asked_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits()
    answer = ask("PATCH", "/admin/settings", b'{"seats": 10}', limits=limits)
    error = error_of(answer.body)
    assert (answer.status, error["code"]) == (400, "bad_request")
    assert error["message"] == "SLUICE_SEATS=10: must be less; and so must others"
    assert limits.seats == 4
    assert "refused to change settings: SLUICE_SEATS=10" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", TOKEN.encode())],
        [*WITH_TOKEN, *WITH_TOKEN],
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PATCH", "settings"), ("GET", "drain")])
def test_without_the_token_nobody_looks_or_changes(
    headers: Headers, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits()
    answer = ask(method, f"/admin/{path}", b'{"seats": 7}', headers, limits)
    assert (answer.status, error_of(answer.body)["code"]) == (401, "invalid_api_key")
    assert answer.header("www-authenticate") == "Bearer"
    assert answer.header("connection") == "close", "or the body of a stranger would be read"
    assert limits.wanted == []
    assert "no valid token" in caplog.text
    assert "wrong" not in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b'{"seats": NaN}', b"\xff\xfe", b'"a"'])
@pytest.mark.parametrize(("method", "path"), [("PATCH", "settings"), ("PUT", "drain")])
def test_a_body_that_is_no_object_is_refused_and_written_down(
    body: bytes, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(method, f"/admin/{path}", body)
    assert (answer.status, error_of(answer.body)["code"]) == (400, "bad_request")
    (line,) = caplog.messages
    assert line.endswith(": The body must be one JSON object.")


@pytest.mark.parametrize("body", [b'{"a":' * 3000, b'{"seats":' + b"[" * 7000 + b"]" * 7000 + b"}"])
def test_brackets_in_one_another_are_no_fault_of_the_gateway(body: bytes) -> None:
    assert ask("PATCH", "/admin/settings", body).status == 400


def test_a_large_body_is_not_read_to_its_end() -> None:
    answer = ask("PATCH", "/admin/settings", b" " * (LARGEST_BODY_BYTES + 1))
    assert (answer.status, error_of(answer.body)["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "settings"), ("DELETE", "drain"), ("PATCH", "drain")]
)
def test_other_methods_are_told_which_there_are(method: str, path: str) -> None:
    answer = ask(method, f"/admin/{path}")
    assert (answer.status, error_of(answer.body)["code"]) == (405, "method_not_allowed")
    assert "GET" in (answer.header("allow") or "")


def test_the_drain_is_switched_shown_and_written_down_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    switch = Switch()
    for _ in range(2):
        answer = ask("PUT", "/admin/drain", b'{"draining": true}', switch=switch)
        assert json.loads(answer.body) == {"draining": True, "running": 3}
    (line,) = caplog.messages
    assert line.endswith(": drain on, 3 requests run")


def test_a_drain_that_cannot_end_says_so(caplog: pytest.LogCaptureFixture) -> None:
    answer = ask("PUT", "/admin/drain", b'{"draining": false}', switch=Switch(may_end=False))
    assert answer.status == 409
    assert "for good" in error_of(answer.body)["message"]
    assert "refused to switch the drain: The gateway was told to stop" in caplog.text


@pytest.mark.parametrize("body", [b"{}", b'{"draining": 1}', b'{"draining": true, "now": 1}'])
def test_a_drain_is_true_or_false(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    switch = Switch()
    assert ask("PUT", "/admin/drain", body, switch=switch).status == 400
    assert not switch.is_on
    assert "refused to switch the drain: The body must be" in caplog.text


@pytest.mark.parametrize("pause_s", [1e9, 0.9])
def test_a_body_that_does_not_come_or_comes_in_drops_is_not_waited_for(pause_s: float) -> None:
    limits = Limits()
    drops: list[bytes | float] = [b'{"seats": 5']
    for _ in range(round(BODY_WITHIN_S / 0.9) + 1):
        drops += [pause_s, b" "]
    answer = ask("PATCH", "/admin/settings", [*drops, b"}"], limits=limits)
    assert (answer.status, error_of(answer.body)["code"]) == (408, "body_timeout")
    assert answer.header("connection") == "close"
    assert limits.wanted == []
