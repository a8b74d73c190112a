"""The simulated vLLM server as an ASGI app.

It is bare ASGI, for two reasons: a framework's route would cost half of the load that the simulator
is there to carry, and a disconnect is only noticed promptly by who awaits `receive()` itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.simulator.bodies import decode_json
from proxy.simulator.engine import EngineDeadError
from proxy.simulator.errors import ApiError, engine_dead
from proxy.simulator.exchange import ClientGoneError, Exchange
from proxy.simulator.generation import GenerationAbortedError, StreamBrokenError
from proxy.simulator.routes import chat, completions, messages, pooling, responses, small
from proxy.simulator.service import Service
from proxy.simulator.simulated_engine import SimulatedEngine

if TYPE_CHECKING:
    from proxy.simulator.exchange import Message, Receive, Send
    from proxy.simulator.log_lines import LogLine
    from proxy.simulator.options import SimulatorOptions

Handler = Callable[[Service, Exchange], Awaitable[None]]

FAULT_PATH = "/sim/fault"
GPU_PATH = "/sim/gpu"

_GUARDED = ("/v1", "/v2", "/inference", "/cohere")


async def invocations(service: Service, exchange: Exchange) -> None:
    """SageMaker's one route for all: the body tells which."""
    body = decode_json(exchange.body)
    fields = body if isinstance(body, dict) else {}
    if "messages" in fields:
        await chat.chat_completions(service, exchange)
    elif "prompt" in fields:
        await completions.completions(service, exchange)
    else:
        await pooling.embeddings(service, exchange)


# Routes that work on the engine's time: /load counts these.
_WORKING: Mapping[str, Handler] = {
    "/v1/chat/completions": chat.chat_completions,
    "/v1/completions": completions.completions,
    "/v1/responses": responses.responses,
    "/v1/messages": messages.messages,
    "/v1/embeddings": pooling.embeddings,
    "/pooling": pooling.pooling,
    "/score": pooling.score,
    "/v1/score": pooling.score,
    "/rerank": pooling.rerank,
    "/v1/rerank": pooling.rerank,
    "/v2/rerank": pooling.rerank,
    "/invocations": invocations,
}

_ROUTES: Mapping[str, Mapping[str, Handler]] = {
    "/health": {"GET": small.health},
    "/ping": {"GET": small.health, "POST": small.health},
    "/version": {"GET": small.version},
    "/load": {"GET": small.load},
    "/metrics": {"GET": small.metrics},
    "/v1/models": {"GET": small.models},
    "/tokenize": {"POST": small.tokenize},
    "/detokenize": {"POST": small.detokenize},
    "/v1/messages/count_tokens": {"POST": messages.count_message_tokens},
    FAULT_PATH: {"POST": small.inject_fault},
    GPU_PATH: {"GET": small.gpu},
    **{path: {"POST": handler} for path, handler in _WORKING.items()},
}


@dataclass(slots=True)
class AppState:
    """What tests reach for."""

    engine: SimulatedEngine
    service: Service


@dataclass(slots=True)
class SimulatedServer:
    """The ASGI app. Its lifespan starts and stops the engine; without one, `async with
    app.state.engine` does.

    Once vLLM's process would have exited, every request raises ConnectionRefusedError.
    """

    state: AppState
    _key: bytes | None = field(default=None, repr=False)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.state.engine.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.state.engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, exchange: Exchange) -> None:
        if self.state.engine.exited:
            raise ConnectionRefusedError
        if not self._authorized(exchange):
            await exchange.json(401, {"error": "Unauthorized"})
            return
        methods = _methods_of(exchange.path)
        if methods is None:
            await exchange.json(404, {"detail": "Not Found"})
        elif (handler := methods.get(exchange.method)) is None:
            allowed = [(b"allow", ", ".join(methods).encode())]
            await exchange.json(405, {"detail": "Method Not Allowed"}, allowed)
        else:
            await self._handle(handler, exchange)

    def _authorized(self, exchange: Exchange) -> bool:
        if self._key is None or exchange.method == "OPTIONS":
            return True
        if not exchange.path.startswith(_GUARDED):
            return True
        scheme, _, key = (exchange.header(b"authorization") or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.encode(), self._key)

    async def _handle(self, handler: Handler, exchange: Exchange) -> None:
        service = self.state.service
        counted = service.options.enable_server_load_tracking and exchange.path in _WORKING
        service.load += counted
        try:
            await exchange.read_body()
            await handler(service, exchange)
        except ApiError as error:
            await self._refuse(exchange, error)
        except EngineDeadError:
            await self._refuse(exchange, engine_dead())
        except (ClientGoneError, GenerationAbortedError, StreamBrokenError):
            pass  # nobody is there to answer, or a fault wants the answer to break off
        finally:
            service.load -= counted

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        await exchange.json(error.status, error.body())
        # vLLM exits at the first request that it answers with its engine's death.
        self.state.engine.exit()


def create_app(
    options: SimulatorOptions, log: Callable[[LogLine], None] = lambda _line: None
) -> SimulatedServer:
    """A server that has not started: see SimulatedServer."""
    engine = SimulatedEngine(options, log)
    key = None if options.api_key is None else options.api_key.encode()
    return SimulatedServer(AppState(engine, Service(options, engine)), key)


def _methods_of(path: str) -> Mapping[str, Handler] | None:
    methods = _ROUTES.get(path)
    if methods is None and path.startswith(responses.RESPONSES_PATH):
        rest: Any = path[len(responses.RESPONSES_PATH) :]
        if rest.endswith(responses.CANCEL_SUFFIX):
            return {"POST": responses.stored_response}
        return {"GET": responses.stored_response} if "/" not in rest else None
    return methods
