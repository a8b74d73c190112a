"""Bodies are what an SDK would send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.prompts import PromptWriter, Vocabulary
from proxy.replay.requests import RequestForm, RequestWriter


def _body(form: RequestForm, sequences: int = 1) -> dict[str, Any]:
    prompts = PromptWriter(Vocabulary(("one", "two", "three")), 1, 10, 0)
    arrival = Arrival(0, 5, 7, sequences=sequences)
    body = RequestWriter(form, prompts).body_of(arrival, 0)
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
def test_several_sequences_are_asked_for_by_n_and_one_without_it(route: Any) -> None:  # noqa: ANN401 - a literal
    form = RequestForm(route, "m")
    assert _body(form, sequences=3)["n"] == 3
    assert "n" not in _body(form)


def test_an_n_for_all_requests_overrules_theirs() -> None:
    body = RequestWriter(
        RequestForm("chat", "m", extra={"n": 2}), PromptWriter(Vocabulary(("one",)), 1, 10, 0)
    ).body_of(Arrival(0, 5, 7, sequences=3), 0)
    assert body.count(b'"n":') == 1
    assert json.loads(body)["n"] == 2


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_more_fields_overrule_ours(route: Any) -> None:  # noqa: ANN401 - a literal
    form = RequestForm(route, "m", extra={"temperature": 0, "model": "other"})
    assert (_body(form)["temperature"], _body(form)["model"]) == (0, "other")
    assert form.path.startswith(b"/v1/")
