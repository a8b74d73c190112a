"""The allow-list: which requests may reach the engine, judged on the raw path that is sent there.

A path is compared byte for byte, before any decoding. Another spelling of the same path
(upper case, a doubled slash, percent-encoding, `;x`) is another path, and not on the list. The two
places with an id in the path accept one only if no decoding of it can walk out of its place.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from proxy.openai_api.measure import RequestShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Access(enum.Enum):
    """GATED takes seats; OPEN passes without a permit and stays alive at saturation."""

    GATED = "gated"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Route:
    """One thing a client may ask the engine. `name` labels metrics: a closed set."""

    name: str
    access: Access
    shape: RequestShape = RequestShape.OPAQUE
    is_inquiry: bool = False
    """Open, and asked to see what is there: other open requests do not crowd it out."""


@dataclass(frozen=True, slots=True)
class MethodNotAllowed:
    """The path is on the list, the method is not; `allowed` are the methods that are."""

    allowed: tuple[str, ...]


_GATED_POST: Mapping[bytes, tuple[str, RequestShape]] = {
    b"/v1/chat/completions": ("chat_completions", RequestShape.CHAT),
    b"/v1/chat/completions/batch": ("chat_completions_batch", RequestShape.CHAT_BATCH),
    b"/v1/completions": ("completions", RequestShape.COMPLETIONS),
    b"/v1/responses": ("responses", RequestShape.RESPONSES),
    b"/v1/messages": ("messages", RequestShape.MESSAGES),
    b"/inference/v1/generate": ("generate", RequestShape.GENERATE),
    b"/generative_scoring": ("generative_scoring", RequestShape.GENERATIVE_SCORING),
    b"/v1/systemone": ("systemone", RequestShape.SYSTEMONE),
    b"/cohere/v2/chat": ("cohere_chat", RequestShape.COHERE_CHAT),
    b"/v1/audio/transcriptions": ("transcriptions", RequestShape.OPAQUE),
    b"/v1/audio/translations": ("translations", RequestShape.OPAQUE),
    b"/v1/embeddings": ("embeddings", RequestShape.EMBEDDINGS),
    b"/v2/embed": ("embed", RequestShape.EMBED_V2),
    b"/pooling": ("pooling", RequestShape.POOLING),
    b"/classify": ("classify", RequestShape.CLASSIFY),
    b"/score": ("score", RequestShape.SCORE),
    b"/v1/score": ("score", RequestShape.SCORE),
    b"/rerank": ("rerank", RequestShape.RERANK),
    b"/v1/rerank": ("rerank", RequestShape.RERANK),
    b"/v2/rerank": ("rerank", RequestShape.RERANK),
}

# Reached only when SLUICE_EXPOSE names it, and then gated: it dispatches to any generation route.
_GATED_WHEN_EXPOSED: Mapping[tuple[str, bytes], tuple[str, RequestShape]] = {
    ("POST", b"/invocations"): ("invocations", RequestShape.INVOCATIONS),
}

_OPEN: Iterable[tuple[str, bytes, str]] = (
    ("POST", b"/tokenize", "tokenize"),
    ("POST", b"/detokenize", "detokenize"),
    ("POST", b"/v1/messages/count_tokens", "count_tokens"),
    ("POST", b"/v1/chat/completions/render", "render"),
    ("POST", b"/v1/completions/render", "render"),
    ("POST", b"/v1/responses/render", "render"),
    ("POST", b"/v1/messages/render", "render"),
    ("POST", b"/cohere/v2/chat/render", "render"),
)

MODELS = Route("models", Access.OPEN, is_inquiry=True)
"""The list of all models, which may be the gateway's to make."""

_MODEL = Route("model", Access.OPEN, is_inquiry=True)
_VERSION = Route("version", Access.OPEN, is_inquiry=True)
_RESPONSE = Route("response", Access.OPEN)
_RESPONSE_CANCEL = Route("response_cancel", Access.OPEN)
_PREFLIGHT = Route("preflight", Access.OPEN, is_inquiry=True)

MODEL_PREFIX = b"/v1/models/"
"""What follows it is the name of a model."""

_RESPONSE_PREFIX = b"/v1/responses/"
_CANCEL_SUFFIX = b"/cancel"

UNKNOWN_ROUTE = Route("unknown", Access.OPEN)
"""Of a request that was refused before its route was known, or that has none."""

_EXPOSED_ROUTE = "exposed"

_LONGEST_ID = 1024
# Printable ASCII, but for what another server may take as more than a character: an escape to be
# decoded once more, a slash, the begin of a parameter (`..;` is `..` to some), of a query, or of a
# fragment.
_ID_BYTES = frozenset(range(0x21, 0x7F)) - frozenset(b"%\\;?#")


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Method and raw path to a Route. Built once; `expose` adds (method, path) pairs as OPEN."""

    _methods_by_path: Mapping[bytes, Mapping[str, Route]] = field(repr=False)

    @classmethod
    def build(cls, expose: Iterable[tuple[str, str]] = ()) -> RouteTable:
        table = {b"/v1/models": {"GET": MODELS}, b"/version": {"GET": _VERSION}}
        for path, (name, shape) in _GATED_POST.items():
            table[path] = {"POST": Route(name, Access.GATED, shape)}
        for method, path, name in _OPEN:
            table.setdefault(path, {})[method] = Route(name, Access.OPEN)
        for method, exposed in expose:
            path = exposed.encode("latin-1")
            methods = table.setdefault(path, {})
            if gated := _GATED_WHEN_EXPOSED.get((method, path)):
                methods[method] = Route(gated[0], Access.GATED, gated[1])
            else:
                # A route that is on the list already keeps its access: exposing is no way round
                # the gate.
                methods.setdefault(method, Route(_EXPOSED_ROUTE, Access.OPEN))
        return cls(table)

    def match(self, method: str, raw_path: bytes) -> Route | MethodNotAllowed | None:
        """None: the path is not on the list."""
        methods = self._methods_by_path.get(raw_path)
        if methods is None:
            methods = _methods_of_path_with_id(raw_path)
            if methods is None:
                return None
        route = methods.get(method)
        return route if route is not None else MethodNotAllowed(tuple(methods))

    def preflight(self, method: str) -> Route | None:
        """The route of a CORS preflight for a path that is on the list."""
        return _PREFLIGHT if method == "OPTIONS" else None

    def paths(self) -> tuple[bytes, ...]:
        """Every path without an id in it."""
        return tuple(self._methods_by_path)

    def names(self) -> tuple[str, ...]:
        """Every route name that can label a metric."""
        listed = {
            route.name for methods in self._methods_by_path.values() for route in methods.values()
        }
        with_id = {_MODEL.name, _RESPONSE.name, _RESPONSE_CANCEL.name, _PREFLIGHT.name}
        return tuple(sorted(listed | with_id | {UNKNOWN_ROUTE.name}))


def _methods_of_path_with_id(raw_path: bytes) -> Mapping[str, Route] | None:
    if raw_path.startswith(MODEL_PREFIX):
        # Model names hold slashes ("org/name"); clients send them encoded or plain.
        return {"GET": _MODEL} if _is_contained(raw_path[len(MODEL_PREFIX) :]) else None
    if raw_path.startswith(_RESPONSE_PREFIX):
        rest = raw_path[len(_RESPONSE_PREFIX) :]
        if rest.endswith(_CANCEL_SUFFIX):
            id_ = rest[: -len(_CANCEL_SUFFIX)]
            return {"POST": _RESPONSE_CANCEL} if _is_one_segment(id_) else None
        return {"GET": _RESPONSE, "DELETE": _RESPONSE} if _is_one_segment(rest) else None
    return None


def _is_one_segment(id_: bytes) -> bool:
    return b"/" not in unquote_to_bytes(id_) and _is_contained(id_)


def _is_contained(id_: bytes) -> bool:
    """Whether an id stays where it stands, however often the engine decodes or normalizes it."""
    if len(id_) > _LONGEST_ID:
        return False
    decoded = unquote_to_bytes(id_)
    if not _ID_BYTES.issuperset(decoded):
        return False
    return all(segment not in (b"", b".", b"..") for segment in decoded.split(b"/"))
