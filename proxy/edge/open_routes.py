"""Where a request goes that takes no seat: to any engine, or to one that serves its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.edge import error_table
from proxy.edge.answers import Refusal
from proxy.edge.large_body import model_in_large_body
from proxy.edge.models_page import ModelsPage
from proxy.edge.routes import MODEL_PREFIX, MODELS
from proxy.openai_api.measure import is_json
from proxy.openai_api.named_model import model_in_body, model_in_path
from proxy.openai_api.request_fields import UnreadableBodyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.edge.engine import Engine
    from proxy.edge.models_page import Served
    from proxy.edge.visit import Visit
    from proxy.openai_api.blocks import Blocks


class NoEngineError(Exception):
    """There is none at all: an empty list of engines, or a host name that leads to none."""


class OpenRoutes:
    """`served` tells what each engine serves. `any_engine` gives one that serves a model, or any
    one if the model is None or nobody's; None while there is no engine at all."""

    def __init__(
        self,
        served: Callable[[], Served],
        any_engine: Callable[[str | None], Engine | None],
    ) -> None:
        self._models_page = ModelsPage(served)
        self._any_engine = any_engine

    def page(self, visit: Visit) -> bytes | None:
        """What the gateway itself answers with status 200, if it does."""
        return self._models_page.page() if visit.route is MODELS else None

    async def engine(self, visit: Visit, body: bytes | Blocks) -> Engine:
        """Raises NoEngineError when there is none, Refusal when the body is too much."""
        model = None
        if self._models_page.page() is not None:  # else there is nothing to choose
            model = await self._model(visit, body)
        engine = self._any_engine(model)
        if engine is None:
            raise NoEngineError
        return engine

    async def _model(self, visit: Visit, body: bytes | Blocks) -> str | None:
        if (named := model_in_path(visit.scope["raw_path"], MODEL_PREFIX)) is not None:
            return named
        if not is_json(visit.headers.content_type):
            return None  # an upload to an exposed route, say
        if isinstance(body, bytes):
            return model_in_body(body)
        try:
            return await model_in_large_body(body)
        except UnreadableBodyError as error:
            raise Refusal(error_table.bad_request(str(error))) from None
