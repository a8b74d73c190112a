from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy.edge.answers import Refusal
from proxy.edge.engine import Engine, EngineState
from proxy.edge.open_routes import NoEngineError, OpenRoutes
from proxy.edge.request_headers import RequestHeaders
from proxy.edge.routes import RouteTable
from proxy.edge.visit import Visit
from proxy.openai_api.blocks import Blocks
from proxy.upstream.address import UpstreamAddress
from proxy.vllm.served_models import ServedModel
from tests.support.client_messages import ClientMessages, SentMessages
from tests.support.in_memory_upstream import InMemoryUpstream
from tests.support.scripted_app import ScriptedApp
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.edge.models_page import Served

ONE, TWO = (ServedModel(name, None, {"id": name}) for name in ("m1", "m2"))
DIFFERENT: Served = [(ONE,), (TWO,)]


def engine() -> Engine:
    address = UpstreamAddress.parse("http://engine.test")
    upstream = InMemoryUpstream(ScriptedApp())
    return Engine("engine", address, upstream, None, lambda: EngineState(True, True, ""))


class Desk:
    """Open routes in front of engines that serve this; `asked` is which model an engine was sought
    for."""

    def __init__(self, served: Served, *, has_engines: bool = True) -> None:
        self.asked: list[str | None] = []
        self._engine = engine() if has_engines else None
        self.routes = OpenRoutes(lambda: served, self._any_engine)

    def _any_engine(self, model: str | None) -> Engine | None:
        self.asked.append(model)
        return self._engine


def visit(path: bytes, method: str = "POST") -> Visit:
    scope = {"type": "http", "http_version": "1.1", "method": method, "raw_path": path}
    visit = Visit(scope, ClientMessages().receive, SentMessages().send, now)
    route = RouteTable.build([("POST", "/v1/models")]).match(method, path)
    visit.route = route  # type: ignore[assignment] # the paths here are all on the list
    return visit


def model_sought(
    served: Served, path: bytes, body: bytes = b"", method: str = "POST"
) -> str | None:
    async def scenario() -> str | None:
        desk = Desk(served)
        await desk.routes.engine(visit(path, method), body)
        (model,) = desk.asked
        return model

    return run(scenario())


@pytest.mark.parametrize(
    ("path", "method", "has_page"),
    [
        (b"/v1/models", "GET", True),
        (b"/v1/models", "POST", False),
        (b"/v1/models/m1", "GET", False),
        (b"/version", "GET", False),
    ],
)
def test_only_the_list_of_models_is_ours_to_answer(
    path: bytes, method: str, has_page: bool
) -> None:
    async def scenario() -> None:
        page = Desk(DIFFERENT).routes.page(visit(path, method))
        assert (page is not None) is has_page
        if page is not None:
            assert [card["id"] for card in json.loads(page)["data"]] == ["m1", "m2"]

    run(scenario())


@pytest.mark.parametrize("served", [[], [()], [(ONE,)], [(ONE,), (ONE,)], [(ONE,), ()]])
def test_where_all_serve_the_same_any_engine_answers(served: Served) -> None:
    async def scenario() -> None:
        assert Desk(served).routes.page(visit(b"/v1/models", "GET")) is None

    run(scenario())
    assert model_sought(served, b"/tokenize", b'{"model": "m1"}') is None


@pytest.mark.parametrize(
    ("path", "method", "body", "model"),
    [
        (b"/tokenize", "POST", b'{"model": "m2", "prompt": "x"}', "m2"),
        (b"/v1/messages/count_tokens", "POST", b'{"model": "m1"}', "m1"),
        (b"/v1/chat/completions/render", "POST", b'{"messages": []}', None),
        (b"/detokenize", "POST", b"not JSON", None),
        (b"/v1/models/m2", "GET", b"", "m2"),
        (b"/v1/responses/r_1", "GET", b"", None),
        (b"/version", "GET", b"", None),
        (b"/tokenize", "POST", b'{"model": "m1", "prompt": "%b"}' % (b"x" * 2_000_000), "m1"),
    ],
    ids=lambda value: None if isinstance(value, bytes) and len(value) > 100 else repr(value),
)
def test_elsewhere_the_engine_is_that_of_the_model(
    path: bytes, method: str, body: bytes, model: str | None
) -> None:
    assert model_sought(DIFFERENT, path, body, method) == model


def test_an_upload_that_is_no_json_names_no_model_however_large_it_is() -> None:
    async def scenario() -> None:
        upload = visit(b"/tokenize")
        upload.headers = RequestHeaders("r", content_type=b"multipart/form-data; boundary=x")
        desk = Desk(DIFFERENT)
        await desk.routes.engine(upload, Blocks([b'{"model":"m1"}\n' * 500_000]))
        await desk.routes.engine(upload, b'{"model":"m1"}')
        assert desk.asked == [None, None]

    run(scenario())


def test_a_large_body_of_too_many_values_is_refused_as_on_other_routes() -> None:
    async def scenario() -> None:
        body = Blocks([b'{"model":"m1"', *[b',"n":1' * 100_000] * 11, b"}"])
        desk = Desk(DIFFERENT)
        with pytest.raises(Refusal) as caught:
            await desk.routes.engine(visit(b"/tokenize"), body)
        assert (caught.value.answer.status, desk.asked) == (400, [])

    run(scenario())


def test_without_any_engine_that_is_said() -> None:
    async def scenario() -> None:
        with pytest.raises(NoEngineError):
            await Desk([], has_engines=False).routes.engine(visit(b"/version", "GET"), b"")

    run(scenario())
