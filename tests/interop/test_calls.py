"""What works directly works through the gateway, with each client, by its base URL alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.clients import BY_NAME
from tests.interop.selection import each_call, each_client
from tests.interop.stage import STARTING_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.interop.clients import Running
    from tests.interop.site import Site
    from tests.interop.stage import Stage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(STARTING_TIMEOUT_S)]

COUNT = 50
"""Embeddings of more inputs than there are seats."""

FINISHED = {"length", "max_tokens", "stop"}


def is_generated(told: Any, texts: int = 1) -> bool:  # noqa: ANN401 - what a driver returns
    return len(told["texts"]) == texts and told["finish"] in FINISHED and told["tokens"] > 0


def is_responded(told: Any) -> bool:  # noqa: ANN401 - as above
    return len(told["texts"]) == 1 and 0 < told["tokens"] <= 8


def is_streamed(told: Any) -> bool:  # noqa: ANN401 - as above
    return bool(told["texts"][0]) and told["finish"] in FINISHED and told["pieces"] > 1


JUDGES: Mapping[str, Callable[[Any], bool]] = {
    "chat": is_generated,
    "n": lambda told: len(told["texts"]) == 2,
    "stream": is_streamed,
    # A completion of two prompts, but with the AI SDK, which has calls for one only.
    "completion": lambda told: is_generated(told, len(told["texts"])),
    "models": lambda told: told == ["tiny"],
    "respond": is_responded,
    "respond_stream": lambda told: (
        told[0] == "response.created"
        and "response.output_text.delta" in told
        and told[-1] in ("response.completed", "response.incomplete")
    ),
}


@each_call(frozenset(JUDGES))
def test_a_call(clients: Mapping[str, Running], site: Site, name: str, call: str) -> None:
    told = clients[name].call(call, site.url)
    assert JUDGES[call](told), told


@each_call(frozenset({"embeddings"}))
def test_embeddings_of_more_inputs_than_there_are_seats(
    clients: Mapping[str, Running], embedding_site: Site, name: str, call: str
) -> None:
    sizes = clients[name].call(call, embedding_site.url, count=COUNT)
    assert len(sizes) == COUNT
    assert len(set(sizes)) == 1
    assert sizes[0] > 1


@each_call(frozenset({"tool", "tool_stream"}))
def test_a_tool_call_keeps_its_shape(
    clients: Mapping[str, Running], stage: Stage, name: str, call: str
) -> None:
    """The engine's answer is written by hand, in vLLM's shape: the simulator calls no tools."""
    told = clients[name].call(call, stage.url("misbehaving"), model="tool")
    assert told["name"] == "look"
    arguments = told["arguments"]
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == {"full": True}


@each_call(frozenset({"leave"}))
def test_leaving_a_stream_aborts_it_in_the_engine(
    clients: Mapping[str, Running], site: Site, name: str, call: str
) -> None:
    site.is_left_by(lambda: clients[name].call(call, site.url, max_tokens=1500))


@each_client
def test_the_version_that_is_tried_is_the_one_that_is_named(
    clients: Mapping[str, Running], name: str
) -> None:
    version = clients[name].started_version()
    assert version == BY_NAME[name].version or name == "curl"
