"""Bodies are what an SDK would send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.prompts import PromptWriter, Vocabulary
from proxy.replay.requests import RequestForm, RequestWriter


def _body(form: RequestForm) -> dict[str, Any]:
    prompts = PromptWriter(Vocabulary(("one", "two", "three")), 1, 10, 0)
    body = RequestWriter(form, prompts).body_of(Arrival(0, 5, 7), 0)
    decoded: dict[str, Any] = json.loads(body)
    return decoded


def test_a_chat_streams_and_asks_for_usage_and_an_exact_length() -> None:
    body = _body(RequestForm("chat", "m"))
    assert len(body.pop("messages")[0]["content"].split()) == 5
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "max_tokens": 7,
        "min_tokens": 7,
    }


def test_other_engines_are_asked_for_nothing_they_may_not_know() -> None:
    body = _body(RequestForm("completions", "m", stream=False, exact_output=False))
    assert len(body.pop("prompt").split()) == 5
    assert body == {"model": "m", "max_tokens": 7}


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_more_fields_overrule_ours(route: Any) -> None:  # noqa: ANN401 - a literal
    form = RequestForm(route, "m", extra={"temperature": 0, "model": "other"})
    assert (_body(form)["temperature"], _body(form)["model"]) == (0, "other")
    assert form.path.startswith(b"/v1/")
